"""The general health rule, for kinds without a rule of their own. It reads common status fields and words."""
