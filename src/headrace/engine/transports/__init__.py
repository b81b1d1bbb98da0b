"""What can lie between a link and its socket: each is a Transport (engine/core/transport.pyx).

websocket       WebSocket, in parts: encoder, decoder, inflater, close_frames; frames: what a head looks like
"""
