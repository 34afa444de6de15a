# SPDX-License-Identifier: Apache-2.0
"""Exports 19 small models of scikit-learn, with inputs of float, double or int64.

    python -m tests.support.sklearn_models FOLDER

The folder is a corpus for `tools.corpus runtimes --types double=float --corpus FOLDER`.
scikit-learn and skl2onnx have to be installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from skl2onnx import to_onnx
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

OPSETS = {"": 18, "ai.onnx.ml": 3}
MODELS = {
    "double": {
        "scaler": StandardScaler(), "pca": make_pipeline(MinMaxScaler(), PCA(2)),
        "linear": LinearRegression(), "kernel": GaussianProcessRegressor(),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()), "means": KMeans(3),
        "forest": RandomForestRegressor(5), "neighbours": KNeighborsRegressor(3),
        "powers": make_pipeline(PolynomialFeatures(2), LinearRegression()),
        "network": MLPClassifier((8,), max_iter=50),
    },
    "float": {
        "support": SVC(probability=True), "support_regression": SVR(),
        "tree": DecisionTreeClassifier(), "forest": RandomForestClassifier(5),
        "boosting": GradientBoostingRegressor(n_estimators=5),
    },
    "int64": {
        "codes": OneHotEncoder(), "tree": DecisionTreeClassifier(), "best": SelectKBest(k=2),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    },
}  # fmt: skip
TYPES = {"float": np.float32, "double": np.float64, "int64": np.int64}


def main() -> int:
    """Writes the models."""
    folder = Path(sys.argv[1])
    random = np.random.default_rng(0)
    data = random.integers(0, 5, (60, 4)) + random.normal(size=(60, 4)) / 4
    classes = (data.sum(1) > 9).astype(np.int64)
    for kind, models in MODELS.items():
        values = np.abs(data).astype(TYPES[kind])
        for name, model in models.items():
            options = {"zipmap": False} if hasattr(model, "predict_proba") else {}
            fitted = model.fit(values, classes)
            proto = to_onnx(
                fitted, values[:1], target_opset=OPSETS,
                options={id(fitted): options} if options else None,
            )  # fmt: skip
            place = folder / f"skl_{name}_{kind}"
            place.mkdir(parents=True, exist_ok=True)
            onnx.save(proto, place / "model.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
