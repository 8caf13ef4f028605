"""Operations on images: sizes, samples, windows."""
