"""The system account: what the server tells there without being asked, and what it answers."""
