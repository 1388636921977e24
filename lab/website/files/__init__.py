"""What other programs read of a site: badges, a feed, CSV, JSON Schemas, a sitemap, a manifest."""
