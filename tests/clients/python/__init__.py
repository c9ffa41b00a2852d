"""Moldau's own Python clients (`moldau.Producer`, `Consumer`, `Admin`, `aio`) against a real broker."""
