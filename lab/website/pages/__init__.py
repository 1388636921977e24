"""What each page shows, in words and figures: pure functions from judged results to frozen views."""
