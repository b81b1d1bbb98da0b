"""Tests of the monitoring port."""
