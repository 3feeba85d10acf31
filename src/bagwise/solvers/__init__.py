"""Optimisers; each returns one `SolveResult`, never prints and never swallows an exception."""

from bagwise.solvers._frank_wolfe import maximize_svm_dual
from bagwise.solvers._lbfgs import minimize_lbfgs
from bagwise.solvers.em import generalized_em
from bagwise.solvers.result import SolveResult

__all__ = ["SolveResult", "generalized_em", "maximize_svm_dual", "minimize_lbfgs"]
