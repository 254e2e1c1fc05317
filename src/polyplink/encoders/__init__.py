"""Encoders: from the crops of a tracklet to one vector; weights with their record."""
