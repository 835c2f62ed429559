"""understudy."""
