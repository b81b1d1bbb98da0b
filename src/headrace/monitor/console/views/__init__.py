"""What the page shows, as JSON. Sequences are texts there: JavaScript's numbers end at 2^53."""
