"""The worker's parts by themselves: laws that need no process, shown with fakes of their ports."""
