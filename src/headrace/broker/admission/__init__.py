"""Who a client is, where that takes time or changes: slow checks, callouts, operator mode, expiry."""
