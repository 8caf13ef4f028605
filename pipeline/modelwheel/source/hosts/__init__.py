"""Where models are that are downloaded: releases of GitHub, Hugging Face, Zenodo, package indexes, object stores."""
