"""What is published: promoted runs, decisions, and the pages made of them. The only package with Jinja."""
