"""The tier deep: a language model rewrites the question and orders what was found. Off unless an endpoint is named.

Nothing here is imported by a recall that does not ask for it, and the query process asks no model: it leaves a job in
the store (`jobs`), which a worker takes up, and reads what the model said. What a model says is only ever a question to
the ordinary recall (`tier.pooled`) or an order of what that has found (`tier.ordered`): no word of it gets into a
context.
"""
