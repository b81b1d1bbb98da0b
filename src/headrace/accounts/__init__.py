"""Who may connect: users, passwords, tokens."""
