"""From a model in Python to model.pt2 and a starter model.yaml. Needs no compiler."""
