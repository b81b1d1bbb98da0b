"""What files in a storage directory mean besides messages: for the server, and for readers without one."""
