"""Engines perform a coordinator's actions and report events; they never import each other."""
