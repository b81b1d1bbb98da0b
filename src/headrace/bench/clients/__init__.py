"""The load generator's clients: connections that publish, receive, ask and answer as fast as they can."""
