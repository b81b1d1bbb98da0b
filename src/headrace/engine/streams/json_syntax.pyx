"""Says what is wrong with a text that is not JSON, and where, in the words that nats-server answers with; and how much
work it would be to decode.

Compiled, because anybody may send a request as long as a message may be: every byte is read once, and to explain half a
megabyte takes about a millisecond. It keeps a list of the brackets that are open, not a call stack, so that deep nesting
cannot exhaust one.
"""

from libc.string cimport memchr, memcmp

DEF MAX_DEPTH = 10_000
cdef Py_ssize_t STRING_WEIGHT = 4      # a list of subjects is what long requests usually consist of
cdef Py_ssize_t VALUE_WEIGHT = 8       # a key, a number, a word, an object, an array: an object of Python's each
END_OF_TEXT = "unexpected EOF"


class _Fault(Exception):
    """`args[0]` is the whole description."""


cdef inline bint is_space(int byte) noexcept:
    return byte == c' ' or byte == c'\t' or byte == c'\r' or byte == c'\n'


cdef inline bint is_digit(int byte) noexcept:
    return c'0' <= byte <= c'9'


cdef inline bint is_hexadecimal(int byte) noexcept:
    return is_digit(byte) or c'a' <= byte <= c'f' or c'A' <= byte <= c'F'


cdef class _Reader:
    cdef bytes source
    cdef const unsigned char *text
    cdef Py_ssize_t length
    cdef Py_ssize_t place
    cdef Py_ssize_t weight
    cdef unsigned char open_brackets[MAX_DEPTH]
    cdef int depth

    def __cinit__(self, bytes source not None):
        self.source = source
        self.text = source
        self.length = len(source)

    cdef int peek(self) except -1:
        """The byte at hand; raises the end of the text."""
        if self.place >= self.length:
            raise _Fault(END_OF_TEXT)
        return self.text[self.place]

    cdef int skip_space(self) except -1:
        while self.place < self.length and is_space(self.text[self.place]):
            self.place += 1
        return self.peek()

    cdef int fail(self, str context) except -1:
        self.peek()
        character = self.source[self.place:self.place + 4].decode("utf-8", "replace")[0]
        shown = {"'": r"'\''", '"': "'\"'"}.get(character) or f"'{_escape(character)}'"
        raise _Fault(f"invalid character {shown} {context} at offset {self.place + len(character.encode())}")

    cdef int expect(self, int byte, str context) except -1:
        if self.peek() != byte:
            self.fail(context)
        self.place += 1
        return 0

    cdef int expect_digit(self) except -1:
        if not is_digit(self.peek()):
            self.fail("in numeric literal")
        self.place += 1
        return 0

    cdef int skip_digits(self) except -1:
        while self.place < self.length and is_digit(self.text[self.place]):
            self.place += 1
        return 0

    cdef int string(self) except -1:
        cdef int byte
        self.place += 1
        while True:
            while self.place < self.length:
                byte = self.text[self.place]
                if byte == c'"' or byte == c'\\' or byte < 0x20:
                    break
                self.place += 1
            byte = self.peek()
            if byte == c'"':
                break
            if byte < 0x20:
                self.fail("in string")
            self.place += 1
            self.escape()
        self.place += 1
        return 0

    cdef int escape(self) except -1:
        """What follows a backslash."""
        cdef int byte = self.peek()
        cdef Py_ssize_t length = 5 if byte == c'u' else 1
        cdef Py_ssize_t k
        cdef bint known
        if length == 5:
            known = True
            for k in range(self.place + 1, min(self.place + length, self.length)):
                known = known and is_hexadecimal(self.text[k])
        else:
            known = memchr(b'bfnrt\\/"', byte, 8) != NULL
        if not known and self.place + length <= self.length:
            shown = self.source[self.place:self.place + length].decode("utf-8", "replace")
            raise _Fault(f"invalid escape sequence `\\{shown}` in string at offset {self.place + length}")
        self.place += length
        return 0

    cdef int number(self) except -1:
        cdef int first
        if self.peek() == c'-':
            self.place += 1
        first = self.peek()
        self.expect_digit()
        if first != c'0':
            self.skip_digits()
        if self.place < self.length and self.text[self.place] == c'.':
            self.place += 1
            self.expect_digit()
            self.skip_digits()
        if self.place < self.length and (self.text[self.place] == c'e' or self.text[self.place] == c'E'):
            self.place += 1
            if self.peek() == c'+' or self.peek() == c'-':
                self.place += 1
            self.expect_digit()
            self.skip_digits()
        return 0

    cdef int word(self, bytes word) except -1:
        cdef const char *letters = word
        if self.length - self.place >= len(word) and memcmp(self.text + self.place, letters, len(word)) == 0:
            self.place += len(word)
            return 0
        for letter in word:
            self.expect(letter, f"in literal {word.decode()} (expecting '{chr(letter)}')")
        return 0

    cdef int scalar(self) except -1:
        cdef int byte = self.peek()
        if byte == c'"':
            self.weight += STRING_WEIGHT
            return self.string()
        self.weight += VALUE_WEIGHT
        if byte == c'-' or is_digit(byte):
            return self.number()
        if byte == c't':
            return self.word(b"true")
        if byte == c'f':
            return self.word(b"false")
        if byte == c'n':
            return self.word(b"null")
        return self.fail("looking for beginning of value")

    cdef int key(self) except -1:
        self.weight += VALUE_WEIGHT
        if self.skip_space() != c'"':
            self.fail("looking for beginning of object key string")
        self.string()
        self.skip_space()
        return self.expect(c':', "after object key")

    cdef int value(self) except -1:
        cdef int byte
        self.depth = 0
        while True:
            byte = self.skip_space()
            if byte == c'{' or byte == c'[':
                if self.depth >= MAX_DEPTH:
                    raise _Fault(f"exceeded max depth at offset {self.place + 1}")
                self.open_brackets[self.depth] = <unsigned char> byte
                self.depth += 1
                self.weight += VALUE_WEIGHT
                self.place += 1
                if self.skip_space() != (c'}' if byte == c'{' else c']'):
                    if byte == c'{':
                        self.key()
                    continue
            else:
                self.scalar()
            if not self.close():
                return 0

    cdef bint close(self) except -1:
        """After a value: close what ends here. Whether another value must follow."""
        cdef bint in_object
        while self.depth:
            in_object = self.open_brackets[self.depth - 1] == c'{'
            if self.skip_space() == c',':
                self.place += 1
                if in_object:
                    self.key()
                return True
            if in_object:
                self.expect(c'}', "after object key:value pair")
            else:
                self.expect(c']', "after array element")
            self.depth -= 1
        return False

    cdef int read(self) except -1:
        while self.place < self.length:
            if is_space(self.text[self.place]):
                self.place += 1
            else:
                self.value()
        return 0


def examine(bytes text not None):
    """(what is wrong with the text; an empty string if nothing is, the weight of what was read)."""
    cdef _Reader reader = _Reader(text)
    try:
        reader.read()
    except _Fault as fault:
        return fault.args[0], reader.weight
    return "", reader.weight


def _escape(str character):
    names = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "\0": r"\x00"}
    if character in names:
        return names[character]
    return character if character.isprintable() else f"\\x{ord(character):02x}"
