"""Evaluation: ranks, reliability, results and reports of them."""
