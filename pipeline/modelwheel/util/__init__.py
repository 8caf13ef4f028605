"""What every room uses: files, processes, text."""
