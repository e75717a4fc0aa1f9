"""Attacks on servers, driven over loopback: what a hostile peer gets, breaks or slows down is to be nothing."""
