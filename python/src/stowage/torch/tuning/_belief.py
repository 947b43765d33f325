"""What runs say about factors and plans: a Gaussian process over what plans take.

    log seconds of a run = what the plan's outline says under the factors + what is this plan's own + noise

The factors are independent before anything has run, with a spread each. What is a plan's own (caches, mostly: nothing here knows of them)
is the more alike in two plans, the more ops run behind the same op. How much of it there is, and how much noise, is taken to be what makes
the runs most likely. With factors that are small the outline is close to linear in their logarithms, so that all of it is least squares.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Sequence

import torch

from ._outline import Factors, Outline

_OWN = (0.002, 0.006, 0.015, 0.03)  # standard deviations of logarithms that are tried
_NOISE = (0.002, 0.005, 0.015, 0.04)
_USUAL = (0.01, 0.005)  # of both; others need reasons
_PASSES = 4  # of linearisation


@dataclass(frozen=True)
class Belief:
    """By how much ops and links take longer than was measured: factors by name, with what each may still be off by. That of caches is how
    often the time counts for what is not in the cache as it was when ops were timed."""

    factors: dict[str, float]
    spread: dict[str, float]
    own: float  #: how much plans differ for no reason that is known, as a part of their time
    noise: float  #: of one run

    def __repr__(self) -> str:
        known = [f"{name} {value:.2f}" for name, value in self.factors.items() if abs(value - (name != "caches")) > 0.01]
        return f"<{', '.join(known) or 'as measured'}; plans {100 * self.own:.1f} %, noise {100 * self.noise:.1f} %>"


class Process:
    """The Gaussian process, given plans that were run and the seconds that they took."""

    def __init__(self, factors: Factors, runs: Sequence[tuple[Outline, float]]) -> None:
        self.factors, self.runs = factors, list(runs)
        self._prior = torch.tensor(factors.spread, dtype=torch.float64) ** 2
        self.logs = [0.0] * len(factors.names)
        self.own, self.noise = _USUAL
        self._expected: dict[Outline, tuple[float, float]] = {}
        self._alike = torch.tensor([[a.likeness(b) for b, _ in self.runs] for a, _ in self.runs], dtype=torch.float64)
        if self.runs:
            self._fit()

    def _fit(self) -> None:
        for k in range(_PASSES):
            said = [outline.log_seconds(self.logs) for outline, _ in self.runs]
            self._slopes = torch.tensor([slopes for _, slopes in said], dtype=torch.float64)
            now = torch.tensor(self.logs, dtype=torch.float64)
            off = torch.tensor([math.log(seconds) - value for (_, seconds), (value, _) in zip(self.runs, said)], dtype=torch.float64)
            self._off = off + self._slopes @ now  # of what factors that are all 1 would give, were the outline linear
            if k == 0 or k == _PASSES - 1:
                self.own, self.noise = min(((own, noise) for own in _OWN for noise in _NOISE), key=lambda pair: self._unlikely(*pair))
            self._factor = self._cholesky(self.own, self.noise)
            self._weights = torch.cholesky_solve(self._off[:, None], self._factor)[:, 0]
            self.logs = (self._prior * (self._slopes.T @ self._weights)).tolist()

    def _cholesky(self, own: float, noise: float) -> torch.Tensor:
        each = noise**2 * torch.eye(len(self.runs), dtype=torch.float64)
        return torch.linalg.cholesky((self._slopes * self._prior) @ self._slopes.T + own**2 * self._alike + each)

    def _unlikely(self, own: float, noise: float) -> float:
        """Minus the logarithm of the likelihood, with a mild belief in what is usual."""
        factor = self._cholesky(own, noise)
        solved = torch.cholesky_solve(self._off[:, None], factor)[:, 0]
        usual = sum(0.5 * (math.log(value / mean) / 0.7) ** 2 for value, mean in zip((own, noise), _USUAL))
        return float(0.5 * self._off @ solved + factor.diagonal().log().sum()) + usual

    def expected(self, outline: Outline) -> tuple[float, float]:
        """The logarithm of a plan's seconds, and its standard deviation, noise apart."""
        if outline not in self._expected:
            self._expected[outline] = self._asked(outline)
        return self._expected[outline]

    def _asked(self, outline: Outline) -> tuple[float, float]:
        value, found = outline.log_seconds(self.logs)
        slopes = torch.tensor(found, dtype=torch.float64)
        variance = float((slopes**2 * self._prior).sum()) + self.own**2
        if not self.runs:
            return value, math.sqrt(variance)
        alike = [outline.likeness(other) for other, _ in self.runs]
        shared = (self._slopes * self._prior) @ slopes + self.own**2 * torch.tensor(alike, dtype=torch.float64)
        mean = value - float(slopes @ torch.tensor(self.logs, dtype=torch.float64)) + float(shared @ self._weights)
        half = torch.linalg.solve_triangular(self._factor, shared[:, None], upper=False)
        return mean, math.sqrt(max(variance - float((half**2).sum()), 1e-12))

    def drawn(self, generator: torch.Generator) -> list[float]:
        """Factors as they may be."""
        sizes, axes = torch.linalg.eigh(self._covariance())
        along = sizes.clamp(min=0).sqrt() * torch.randn(len(self.logs), generator=generator, dtype=torch.float64)
        return (torch.tensor(self.logs, dtype=torch.float64) + axes @ along).tolist()

    def _covariance(self) -> torch.Tensor:
        full = torch.diag(self._prior)
        if not self.runs:
            return full
        shared = self._slopes * self._prior
        return full - shared.T @ torch.cholesky_solve(shared, self._factor)

    def belief(self) -> Belief:
        spread = self._covariance().diagonal().clamp(min=0).sqrt().tolist()
        names = self.factors.names
        return Belief(dict(zip(names, self.factors.by(self.logs))), dict(zip(names, spread)), self.own, self.noise)


def expected_gain(mean: float, spread: float, best: float) -> float:
    """By how much a plan may be expected to lower the best, on logarithms, if it is lower at all."""
    z = (best - mean) / spread
    return (best - mean) * 0.5 * math.erfc(-z / math.sqrt(2)) + spread * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
