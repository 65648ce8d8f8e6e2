"""Figures, printed as tables; nothing here asserts anything."""
