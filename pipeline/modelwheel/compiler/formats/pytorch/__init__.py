"""Files of `torch.export.save`."""
