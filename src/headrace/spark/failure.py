"""What keeps Spark from working."""

from headrace.errors import HeadraceError


class SparkError(HeadraceError):
    """PySpark or Java is missing, or Spark did not start. One line says which, the hint what to do."""
