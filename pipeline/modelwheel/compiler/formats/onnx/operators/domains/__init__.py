"""Operations of the domains com.microsoft and ai.onnx.ml."""
