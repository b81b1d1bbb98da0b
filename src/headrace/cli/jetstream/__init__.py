"""What the commands need of JetStream, on any server: requests (api.py), the messages of a stream
(reader.py), and many publishes at once (publisher.py).

nats-py has a JetStream client, too, but it forgets fields that it does not know, does not say when a value
was stored, and publishes one chunk of an object at a time. So the commands use its connection and speak
JetStream themselves; answers are plain dictionaries with the names of the wire.
"""
