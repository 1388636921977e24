"""What is published, as data: promoted runs, judged once, and all that pages and files are made of."""
