"""JetStream: streams that keep messages on disk, consumers that read them, and the API that manages both."""
