"""Messages over HTTP: `POST /publish/SUBJECT`. Each request publishes as the client that it logs in as."""
