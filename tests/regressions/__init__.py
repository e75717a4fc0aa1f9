"""Defects that others have met, each as a test with the number of its report; docs/regressions.md lists them all."""
