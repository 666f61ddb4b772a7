"""As much of Numba as tests/python-frameworks-t.sh needs."""
