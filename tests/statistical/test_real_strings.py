"""Feeds known by nothing but their links, the paper's own example, on real ones."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

import kernelbandits as kb

FOLDER = os.environ.get("KERNELBANDITS_DATA")


@pytest.mark.skipif(not FOLDER, reason="KERNELBANDITS_DATA names no folder with newsfeeds/newsfeeds.csv.gz")
def test_links_alone_tell_which_feeds_are_about_technology():
    """20 links a round, one to fetch; 14 % of all feeds are of the wanted topic."""
    with gzip.open(Path(FOLDER) / "newsfeeds" / "newsfeeds.csv.gz", "rt", encoding="utf-8") as file:
        feeds = list(csv.DictReader(file))
    links, wanted = [feed["feed_url"] for feed in feeds], np.array([feed["topic"] == "tech" for feed in feeds])
    rng, rewards = np.random.default_rng(0), []
    policy = kb.KernelUCB(kb.kernels.TfIdf(links, n=(2, 5)), regularization=0.1, exploration=0.1, reward_range=(0, 1))
    for _ in range(300):
        shown = rng.choice(len(links), size=20, replace=False)
        decision = policy.choose([links[row] for row in shown])
        reward = float(wanted[shown[decision.action]])
        policy.learn(decision, reward)
        rewards.append(reward)

    assert np.mean(rewards[100:]) > 0.45  # three times what chance reaches; seen: 0.68
