"""A shop's background work: receipts, reports, newsletters."""
