"""What the dashboards show, as tables: `draw.py` draws them.

A panel is a title, a unit and its queries, each with a legend.
"""

Panel = tuple[str, str, list[tuple[str, str]]]
"""Title, Grafana's name of the unit, and queries with their legends."""

ONE = '{instance="$instance"}'
"""The sidecar that the viewer has chosen."""


def p99(metric: str, by: str = "instance") -> str:
    """A histogram's 99th percentile over five minutes."""
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket[5m])))"


def p50(metric: str, by: str = "instance") -> str:
    """A histogram's median over five minutes."""
    return f"histogram_quantile(0.5, sum by ({by}, le) (rate({metric}_bucket[5m])))"


MESH: list[Panel] = [
    ("Services that are ready", "short", [("sum by (job) (sidegate_ready)", "{{job}}")]),
    ("Messages appended", "cps", [("sidegate:appended_messages:rate1m", "messages")]),
    ("Bytes appended", "Bps", [("sidegate:appended_bytes:rate1m", "bytes")]),
    (
        "Decisions",
        "cps",
        [("sum by (result) (rate(sidegate_gatekeeper_decisions_total[1m]))", "{{result}}")],
    ),
    (
        "Messages waiting on sidecars' disks",
        "short",
        [("sum(sidegate_sidecar_spool_messages)", "spooled")],
    ),
    (
        "Sidecars without a gatekeeper",
        "short",
        [("count(sidegate_sidecar_uplink_connected == 0) or vector(0)", "down")],
    ),
    (
        "Messages delivered to apps",
        "cps",
        [("sum(rate(sidegate_sidecar_delivered_messages_total[1m]))", "delivered")],
    ),
    (
        "Certificates: life left",
        "s",
        [
            (
                "min by (job) (sidegate_certificate_expires_timestamp_seconds - time())",
                "{{job}}, the shortest",
            )
        ],
    ),
    (
        "The slowest subscription",
        "short",
        [("sidegate_core_subscription_lag_max", "messages behind")],
    ),
    (
        "Witnesses' alarms",
        "short",
        [("sum by (alarm) (sidegate_gatekeeper_witness_alarm)", "{{alarm}}")],
    ),
    (
        "What runs",
        "short",
        [("count by (service, version) (sidegate_build_info)", "{{service}} {{version}}")],
    ),
]

CORE: list[Panel] = [
    (
        "Appended",
        "cps",
        [
            ("rate(sidegate_core_appended_messages_total[1m])", "messages"),
            ("rate(sidegate_core_appended_batches_total[1m])", "batches"),
        ],
    ),
    ("Bytes appended", "Bps", [("rate(sidegate_core_appended_bytes_total[1m])", "bytes")]),
    (
        "Time of a sync",
        "s",
        [
            (p50("sidegate_core_fsync_seconds", "file"), "{{file}} median"),
            (p99("sidegate_core_fsync_seconds", "file"), "{{file}} p99"),
        ],
    ),
    ("Batches of one commit", "short", [(p50("sidegate_core_group_batches"), "median")]),
    (
        "Refused",
        "cps",
        [("sum by (code) (rate(sidegate_core_refused_batches_total[5m]))", "{{code}}")],
    ),
    ("Repeats recognised", "cps", [("rate(sidegate_core_repeated_batches_total[5m])", "repeats")]),
    (
        "Room on the disk",
        "bytes",
        [("sidegate_core_disk_free_bytes", "free"), ("sidegate_core_log_bytes", "log")],
    ),
    (
        "Streams",
        "short",
        [
            ("sidegate_core_streams", "open"),
            ("rate(sidegate_core_stream_lags_total[5m])", "fell behind, a second"),
        ],
    ),
    (
        "Bytes streamed",
        "Bps",
        [("rate(sidegate_core_stream_bytes_total[1m])", "to gatekeepers")],
    ),
    (
        "In flight",
        "bytes",
        [
            ("sidegate_core_log_in_flight_bytes", "waiting for the disk"),
            ("sidegate_core_request_bytes", "being read"),
        ],
    ),
    (
        "Leaves not yet synced",
        "short",
        [("sidegate_core_log_leaves - sidegate_core_log_durable_leaves", "leaves")],
    ),
    (
        "Subscriptions",
        "short",
        [
            ("sidegate_core_subscriptions", "subscriptions"),
            ("sidegate_core_subscription_members", "members"),
            ("sidegate_core_subscription_in_flight", "messages in members' hands"),
            ("sidegate_core_subscription_lag", "messages not acknowledged"),
        ],
    ),
    (
        "The tree",
        "short",
        [
            ("sidegate_core_tree_unsigned_leaves", "leaves without a checkpoint"),
            ("sidegate_core_checkpoint_cosignatures", "cosignatures on the newest"),
        ],
    ),
    ("Age of the newest checkpoint", "s", [("sidegate_core_checkpoint_age_seconds", "age")]),
    ("Memory", "bytes", [('process_resident_memory_bytes{job="core"}', "resident")]),
]

GATEKEEPER: list[Panel] = [
    (
        "Decisions by action",
        "cps",
        [
            (
                "sum by (action, result) (rate(sidegate_gatekeeper_decisions_total[1m]))",
                "{{action}} {{result}}",
            )
        ],
    ),
    (
        "Denials by rule",
        "cps",
        [
            (
                'sum by (rule) (rate(sidegate_gatekeeper_decisions_total{result="deny"}[5m]))',
                "{{rule}}",
            )
        ],
    ),
    (
        "Callers that are not proven",
        "cps",
        [
            (
                "sum by (reason) (rate(sidegate_gatekeeper_authentication_refusals_total[5m]))",
                "{{reason}}",
            )
        ],
    ),
    (
        "Batches",
        "cps",
        [("sum by (result) (rate(sidegate_gatekeeper_batches_total[1m]))", "{{result}}")],
    ),
    (
        "Time of an append",
        "s",
        [
            (p50("sidegate_gatekeeper_core_seconds"), "core, median"),
            (p99("sidegate_gatekeeper_core_seconds"), "core, p99"),
            (p50("sidegate_gatekeeper_append_added_seconds"), "gatekeeper itself, median"),
            (p99("sidegate_gatekeeper_append_added_seconds"), "gatekeeper itself, p99"),
        ],
    ),
    (
        "Bytes",
        "Bps",
        [
            ("rate(sidegate_gatekeeper_append_bytes_total[1m])", "in"),
            ("rate(sidegate_gatekeeper_stream_bytes_total[1m])", "out"),
        ],
    ),
    (
        "Connections",
        "short",
        [
            ("sidegate_gatekeeper_connections", "connections"),
            ("sidegate_gatekeeper_streams", "streams"),
            ("sidegate_gatekeeper_handshakes", "handshakes"),
        ],
    ),
    (
        "Decision log",
        "short",
        [
            ("sidegate_gatekeeper_audit_waiting", "waiting"),
            ("increase(sidegate_gatekeeper_audit_lost_total[10m])", "lost in 10 min"),
        ],
    ),
    (
        "Witness",
        "short",
        [
            ("sidegate_gatekeeper_witness_size", "leaves of the last checkpoint"),
            ("sum by (alarm) (sidegate_gatekeeper_witness_alarm)", "alarm: {{alarm}}"),
        ],
    ),
    ("Age of issuers' keys", "s", [("sidegate_gatekeeper_jwks_age_seconds", "{{issuer}}")]),
]

SIDECAR: list[Panel] = [
    ("Uplink", "short", [(f"sidegate_sidecar_uplink_connected{ONE}", "connected")]),
    (
        "Messages",
        "cps",
        [
            (
                f"rate(sidegate_sidecar_committed_messages_total{ONE}[1m])",
                "committed",
            ),
            (
                f"rate(sidegate_sidecar_delivered_messages_total{ONE}[1m])",
                "delivered",
            ),
            (f"rate(sidegate_sidecar_denied_messages_total{ONE}[1m])", "denied"),
        ],
    ),
    (
        "Bytes committed",
        "Bps",
        [(f"rate(sidegate_sidecar_committed_bytes_total{ONE}[1m])", "bytes")],
    ),
    (
        "Waiting",
        "short",
        [
            (f"sidegate_sidecar_waiting_messages{ONE}", "messages not in a batch"),
            (f"sidegate_sidecar_unsettled_batches{ONE}", "batches under way"),
        ],
    ),
    (
        "Spool",
        "bytes",
        [
            (f"sidegate_sidecar_spool_bytes{ONE}", "used"),
            (f"sidegate_sidecar_spool_limit_bytes{ONE}", "limit"),
        ],
    ),
    (
        "Oldest in the spool",
        "s",
        [(f"sidegate_sidecar_spool_oldest_age_seconds{ONE}", "age")],
    ),
    (
        "Trouble",
        "short",
        [
            (
                f"increase(sidegate_sidecar_rejected_messages_total{ONE}[10m])",
                "refused after a 202",
            ),
            (
                f"increase(sidegate_sidecar_in_doubt_answers_total{ONE}[10m])",
                "in doubt",
            ),
            (
                f"increase(sidegate_sidecar_dropped_messages_total{ONE}[10m])",
                "dropped",
            ),
            (
                f"increase(sidegate_sidecar_spool_refusals_total{ONE}[10m])",
                "spool refused",
            ),
        ],
    ),
    (
        "Requests of the app",
        "cps",
        [
            (
                f"sum by (route, status) (rate(sidegate_http_request_seconds_count{ONE}[1m]))",
                "{{route}} {{status}}",
            )
        ],
    ),
    (
        "Webhooks",
        "cps",
        [
            (f"rate(sidegate_sidecar_push_delivered_messages_total{ONE}[1m])", "delivered"),
            (f"rate(sidegate_sidecar_push_failed_messages_total{ONE}[1m])", "failed tries"),
            (f"rate(sidegate_sidecar_push_dead_messages_total{ONE}[1m])", "dead letters"),
        ],
    ),
    ("Open streams", "short", [(f"sidegate_sidecar_streams{ONE}", "streams")]),
    ("Memory", "bytes", [(f"process_resident_memory_bytes{ONE}", "resident")]),
]

DASHBOARDS: dict[str, tuple[str, list[Panel]]] = {
    "mesh": ("Sidegate: the mesh", MESH),
    "core": ("Sidegate: core", CORE),
    "gatekeeper": ("Sidegate: gatekeeper", GATEKEEPER),
    "sidecar": ("Sidegate: one sidecar", SIDECAR),
}
