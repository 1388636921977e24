"""What other programs read of a site: CSV, JSON Schemas, a sitemap, a manifest."""
