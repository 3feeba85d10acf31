"""Several observers of the bags of a run: what each listed, how far each can be relied on, what is there by all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from bagwise.annotation import learn_from_observers, observer_log_odds
from bagwise.app.runs._evidence import BagMarks
from bagwise.app.runs.supervision import Supervision
from bagwise.core.exceptions import InputError
from bagwise.io.labels import split_marks
from bagwise.pipeline import bag_tags, final_step

DIGITS = 4  # of rates and probabilities that are kept
EVEN = 0.5  # a label more probable than this is there
SURE, LEAST = 0.01, 1e-6  # as of `bagwise.annotation.learn_from_observers`: sure labels are lists, no confidence is 0


@dataclass(frozen=True)
class ObserverRates:
    """What a fit learned of observers.

    Attributes
    ----------
    missed, invented : dict
        Observer to the share of labels that are there and not listed, and of those not there that are.
    presence : dict
        Bag to the labels that somebody lists of it, and these to the probability that they are there.
    """

    missed: dict[str, float]
    invented: dict[str, float]
    presence: dict[str, dict[str, float]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ObserverRates:
        """From plain data; an error where a number is no probability."""
        found = cls(**{name: dict(document[name]) for name in ("missed", "invented", "presence")})
        shares = [*found.missed.values(), *found.invented.values()]
        shares += [share for own in found.presence.values() for share in own.values()]
        if found.missed.keys() != found.invented.keys() or not all(0.0 <= share <= 1.0 for share in shares):
            raise InputError("it holds rates of observers that are no numbers from 0 to 1")
        return found


@dataclass(frozen=True)
class Weighed:
    """What all observers say together.

    Attributes
    ----------
    listed : dict
        Bag to the labels that are there, more probably than not.
    marks : dict
        Bag to the confidence in each label that somebody speaks of; 0 and 1 are those of a list.
    """

    listed: dict[str, list[str]]
    marks: dict[str, BagMarks]


@dataclass(frozen=True)
class Observed:
    """What each of several observers says of the bags; nothing where labels are given as one list per bag.

    Attributes
    ----------
    lists : dict
        Observer to the bags looked at, and these to entries of a table (`bagwise.io.labels`).
    """

    lists: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.lists)

    def without(self, bags: Collection[str]) -> Observed:
        """The same without some bags."""
        return Observed({who: {bag: own[bag] for bag in own if bag not in bags} for who, own in self.lists.items()})

    @cached_property
    def said(self) -> dict[str, dict[str, BagMarks]]:
        """Bag to the observers who looked at it, and these to what they say: 1 is listed, of a group nothing said."""
        found: dict[str, dict[str, BagMarks]] = {}
        for who, own in self.lists.items():
            for bag, entries in own.items():
                listed, marked = split_marks(entries, who)
                marks = BagMarks.of(marked)
                members = dict.fromkeys((name for group in marks.groups for name in group), np.nan)
                values = {**members, **marks.values, **dict.fromkeys(listed, 1.0)}
                found.setdefault(bag, {})[who] = BagMarks(values, marks.groups)
        return found

    @cached_property
    def open(self) -> dict[str, list[str]]:
        """Bag to the labels that somebody lists or calls possible."""
        return {
            bag: sorted({name for own in each.values() for name, value in own.values.items() if value != -np.inf})
            for bag, each in self.said.items()
        }

    @cached_property
    def _start(self) -> Weighed:
        return self._weigh(None)

    def weighed(self, rates: ObserverRates | None) -> Weighed:
        """What all say together at these rates; None: before anything was learned of them."""
        return self._start if rates is None else self._weigh(rates)

    def _weigh(self, rates: ObserverRates | None) -> Weighed:
        pairs, of_pair, who_said, values = list[tuple[str, str]](), list[int](), list[str](), list[float]()
        for bag, names in self.open.items():
            for name in names:
                for who, own in self.said[bag].items():
                    of_pair.append(len(pairs))
                    who_said.append(who)
                    values.append(own.values.get(name, 0.0))
                pairs.append((bag, name))
        odds = observer_log_odds(values)
        if rates is not None:  # others came later
            known = np.array([who in rates.missed for who in who_said], dtype=bool)
            missed, invented = (
                np.array([own.get(who, EVEN) for who in who_said]) for own in (rates.missed, rates.invented)
            )
            odds = np.where(known, observer_log_odds(values, missed, invented), odds)
        place = np.array(of_pair, dtype=np.int64)
        confidence = expit(np.bincount(place, odds, minlength=len(pairs)))
        spoken = np.bincount(place, ~np.isnan(values), minlength=len(pairs))
        confidence[spoken == 0] = np.nan
        weighed = Weighed({bag: [] for bag in self.said}, {bag: BagMarks() for bag in self.said})
        for (bag, name), sure in zip(pairs, confidence.tolist(), strict=True):
            learned = None if rates is None else rates.presence.get(bag, {}).get(name)
            presence = sure if learned is None else learned
            is_sure = learned is not None and not SURE < learned < 1.0 - SURE
            weighed.marks[bag].values[name] = round(presence) if is_sure else float(np.clip(sure, LEAST, 1.0 - LEAST))
            if presence > EVEN:
                weighed.listed[bag].append(name)
        for bag, each in self.said.items():
            weighed.marks[bag].groups.extend(dict.fromkeys(group for own in each.values() for group in own.groups))
        return weighed

    def learn(self, model: Any, supervision: Supervision) -> tuple[ObserverRates, float]:
        """Rates of the observers from what they say, from the instances and from what people settled since.

        Gives also how often a label that is there is listed by nobody.

        Parameters
        ----------
        model : estimator or pipeline that takes evidence, not calibrated
        supervision : Supervision
            With what all say together, at any rates.
        """
        tags = bag_tags(model)
        if not tags.evidence:
            raise InputError(
                f"{type(final_step(model)).__name__} takes plain lists of labels, and several observers listed those "
                "of the same bags; use ored-background, noisy-or or ored-forest, or give one list per bag."
            )
        training = supervision.training_set(
            takes_empty=tags.background, takes_known=tags.instance_labels, label_sets=tags.label_sets
        )
        column = {name: c for c, name in enumerate(training.class_names)}
        number = {name: i for i, name in enumerate(training.bag_names) if name != ""}
        certain = self._certain(supervision, training, number, column)

        def lists() -> Iterator[np.ndarray]:
            for who in self.lists:
                values = np.full(certain.shape, np.nan)
                for bag in self.lists[who]:
                    if bag in number:
                        values[number[bag]] = 0.0
                        for name, value in self.said[bag][who].values.items():
                            if name in column:
                                values[number[bag], column[name]] = value
                yield values

        found = learn_from_observers(clone(model), training.bags, lists(), certain=certain, refit=False)
        presence = {
            bag: {
                name: round(float(found.presence[number[bag], column[name]]), DIGITS)
                for name in names
                if name in column
            }
            for bag, names in self.open.items()
            if bag in number
        }
        missed, invented = (
            {who: round(float(rate), DIGITS) for who, rate in zip(self.lists, of_one, strict=True)}
            for of_one in (found.missed, found.invented)
        )
        return ObserverRates(missed, invented, presence), found.unnoticed

    def _certain(
        self, supervision: Supervision, training: Any, number: Mapping[Any, int], column: Mapping[Any, int]
    ) -> np.ndarray:
        """(n, c) inf and -inf for what people settled, NaN elsewhere; bags of one known instance are known."""
        certain = np.full(training.Y.shape, np.nan)
        alone = np.array([name == "" for name in training.bag_names])
        certain[alone] = np.where(training.Y[alone] == 1, np.inf, -np.inf)
        for b, bag in enumerate(supervision.dataset.bag_names):
            if bag not in number:
                continue
            marks = supervision.marks.get(b, BagMarks()).values
            for name in (supervision.dataset.label_sets[b] or set()) - marks.keys():
                certain[number[bag], column[name]] = np.inf
            for name, value in marks.items():
                if value == -np.inf and name in column:
                    certain[number[bag], column[name]] = -np.inf
        return certain

    def about(self, rates: ObserverRates | None, supervision: Supervision) -> list[dict[str, Any]]:
        """For each observer the bags looked at, the labels listed, and how far they can be relied on, once learned."""
        rows = []
        for who, own in self.lists.items():
            listed = [(bag, name) for bag in own for name, value in self.said[bag][who].values.items() if value == 1.0]
            row: dict[str, Any] = {"observer": who, "bags": len(own), "listed": len(listed)}
            if rates is not None and who in rates.missed:
                there = {(bag, name): presence for bag, name, presence, _ in self._there(rates, supervision, own)}
                right = sum(there.get(pair, 0.0) for pair in listed) / len(listed) if listed else None
                row |= {"missed": rates.missed[who], "invented": rates.invented[who], "right": right}
            rows.append(row)
        return rows

    def _there(
        self, rates: ObserverRates, supervision: Supervision, bags: Iterable[str]
    ) -> Iterator[tuple[str, str, float, bool]]:
        """Each label that somebody speaks of with the probability that it is there, and whether a person settled it."""
        number = {bag: b for b, bag in enumerate(supervision.dataset.bag_names)}
        for bag in bags:
            if bag not in number:
                continue
            marks = supervision.marks.get(number[bag], BagMarks()).values
            listed = supervision.dataset.label_sets[number[bag]] or set()
            for name in self.open[bag]:
                is_settled = bool(np.isinf(marks.get(name, np.inf)))
                learned = rates.presence.get(bag, {}).get(name)
                presence = float(name in listed) if is_settled or learned is None else learned
                yield bag, name, presence, is_settled

    def disputed(self, rates: ObserverRates | None, supervision: Supervision) -> list[dict[str, Any]]:
        """Labels that some list and others who looked do not: who does, and how probably it is there.

        The least certain first; settled ones are left out.
        """
        if rates is None:
            return []
        rows = []
        for bag, name, presence, is_settled in self._there(rates, supervision, self.said):
            each = {who: own.values.get(name, 0.0) for who, own in self.said[bag].items()}
            listing = [who for who, value in each.items() if value > EVEN]
            others = [who for who, value in each.items() if value <= 0.0]
            if listing and others and not is_settled:
                row = {"bag": bag, "label": name, "listed_by": listing, "not_listed_by": others}
                rows.append({**row, "probability": presence})
        return sorted(rows, key=lambda row: (abs(row["probability"] - EVEN), row["bag"], row["label"]))
