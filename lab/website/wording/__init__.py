"""What a page may say: figures by pointer or reference, nothing hidden, nothing beyond what was measured."""
