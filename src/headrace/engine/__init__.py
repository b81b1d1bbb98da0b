"""The compiled data plane. It parses, matches and delivers; it calls back, and imports no other room."""
