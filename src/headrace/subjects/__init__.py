"""Subjects: their grammar, how they match, and how they are transformed. A leaf: it imports no other room."""
