"""What a warehouse is made of: files that are whole or not there, versions, folders in use."""
