"""Tests of the package stint. Those that need a service read its address from STINT_SERVER."""
