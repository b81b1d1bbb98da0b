"""Every error response of the JetStream API, in one table.

The key is the name under which nats-server lists the error, in snake case; the value is its HTTP-like
code, its own number and its description. Descriptions are part of the protocol: clients match on them.
"""

from __future__ import annotations

import msgspec

from headrace.errors import HeadraceError


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """The `error` of a response."""

    code: int = msgspec.field()
    err_code: int = 0
    description: str = ""


class ApiError(HeadraceError):
    """A request, or a publish, is refused: the boundary answers with `body`."""

    def __init__(self, name: str, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.name = name
        self.code = code
        self.err_code = err_code
        self.description = description

    @property
    def body(self) -> ErrorBody:
        return ErrorBody(self.code, self.err_code, self.description)


class StoreError(HeadraceError):
    """A storage error: a file is missing, damaged, or cannot be written."""


def api_error(name: str, **values: object) -> ApiError:
    """The error of that name, with the values that its description mentions filled in."""
    code, err_code, template = ERRORS[name]
    description = template
    for key, value in values.items():
        description = description.replace("{" + key + "}", str(value))
    return ApiError(name, code, err_code, description)


def store_error(error: OSError) -> ApiError:
    """The response if a stream cannot be read or written."""
    return api_error("stream_store_failed", err=error.strerror or str(error))


ERRORS: dict[str, tuple[int, int, str]] = {
    "account_resources_exceeded": (400, 10002, "resource limits exceeded for account"),
    "bad_request": (400, 10003, "bad request"),
    "cluster_incomplete": (503, 10004, "incomplete results"),
    "cluster_no_peers": (400, 10005, "{err}"),
    "cluster_not_active": (500, 10006, "JetStream not in clustered mode"),
    "cluster_not_assigned": (500, 10007, "JetStream cluster not assigned to this server"),
    "cluster_not_avail": (503, 10008, "JetStream system temporarily unavailable"),
    "cluster_not_leader": (500, 10009, "JetStream cluster can not handle request"),
    "cluster_required": (503, 10010, "JetStream clustering support required"),
    "cluster_tags": (400, 10011, "tags placement not supported for operation"),
    "consumer_create": (500, 10012, "{err}"),
    "consumer_name_exist": (400, 10013, "consumer name already in use"),
    "consumer_not_found": (404, 10014, "consumer not found"),
    "snapshot_deliver_subject_invalid": (400, 10015, "deliver subject not valid"),
    "consumer_durable_name_not_in_subject": (
        400,
        10016,
        "consumer expected to be durable but no durable name set in subject",
    ),
    "consumer_durable_name_not_match_subject": (
        400,
        10017,
        "consumer name in subject does not match durable name in request",
    ),
    "consumer_durable_name_not_set": (
        400,
        10018,
        "consumer expected to be durable but a durable name was not set",
    ),
    "consumer_ephemeral_with_durable_in_subject": (
        400,
        10019,
        "consumer expected to be ephemeral but detected a durable name set in subject",
    ),
    "consumer_ephemeral_with_durable_name": (
        400,
        10020,
        "consumer expected to be ephemeral but a durable name was set in request",
    ),
    "stream_external_api_overlap": (
        400,
        10021,
        "stream external api prefix {prefix} must not overlap with {subject}",
    ),
    "stream_external_del_prefix_overlaps": (
        400,
        10022,
        "stream external delivery prefix {prefix} overlaps with stream subject {subject}",
    ),
    "insufficient_resources": (503, 10023, "insufficient resources"),
    "stream_invalid_external_delivery_subj": (
        400,
        10024,
        "stream external delivery prefix {prefix} must not contain wildcards",
    ),
    "invalid_json": (400, 10025, "invalid JSON: {err}"),
    "maximum_consumers_limit": (400, 10026, "maximum consumers limit reached"),
    "maximum_streams_limit": (400, 10027, "maximum number of streams reached"),
    "memory_resources_exceeded": (500, 10028, "insufficient memory resources available"),
    "mirror_consumer_setup_failed": (500, 10029, "{err}"),
    "mirror_max_message_size_too_big": (400, 10030, "stream mirror must have max message size >= source"),
    "mirror_with_sources": (400, 10031, "stream mirrors can not also contain other sources"),
    "mirror_with_start_seq_and_time": (
        400,
        10032,
        "stream mirrors can not have both start seq and start time configured",
    ),
    "mirror_with_subject_filters": (400, 10033, "stream mirrors can not contain filtered subjects"),
    "mirror_with_subjects": (400, 10034, "stream mirrors can not contain subjects"),
    "no_account": (503, 10035, "account not found"),
    "cluster_un_support_feature": (503, 10036, "not currently supported in clustered mode"),
    "no_message_found": (404, 10037, "no message found"),
    "not_empty_request": (400, 10038, "expected an empty request payload"),
    "not_enabled_for_account": (503, 10039, "JetStream not enabled for account"),
    "cluster_peer_not_member": (400, 10040, "peer not a member"),
    "raft_general": (500, 10041, "{err}"),
    "restore_subscribe_failed": (
        500,
        10042,
        "JetStream unable to subscribe to restore snapshot {subject}: {err}",
    ),
    "sequence_not_found": (400, 10043, "sequence {seq} not found"),
    "cluster_server_not_member": (400, 10044, "server is not a member of the cluster"),
    "source_consumer_setup_failed": (500, 10045, "{err}"),
    "source_max_message_size_too_big": (400, 10046, "stream source must have max message size >= target"),
    "storage_resources_exceeded": (500, 10047, "insufficient storage resources available"),
    "stream_assignment": (500, 10048, "{err}"),
    "stream_create": (500, 10049, "{err}"),
    "stream_delete": (500, 10050, "{err}"),
    "stream_general_error": (500, 10051, "{err}"),
    "stream_invalid_config": (500, 10052, "{err}"),
    "stream_limits": (500, 10053, "{err}"),
    "stream_message_exceeds_maximum": (400, 10054, "message size exceeds maximum allowed"),
    "stream_mirror_not_updatable": (400, 10055, "stream mirror configuration can not be updated"),
    "stream_mismatch": (400, 10056, "stream name in subject does not match request"),
    "stream_msg_delete_failed": (500, 10057, "{err}"),
    "stream_name_exist": (400, 10058, "stream name already in use with a different configuration"),
    "stream_not_found": (404, 10059, "stream not found"),
    "stream_not_match": (400, 10060, "expected stream does not match"),
    "stream_replicas_not_updatable": (400, 10061, "Replicas configuration can not be updated"),
    "stream_restore": (500, 10062, "restore failed: {err}"),
    "stream_sequence_not_match": (503, 10063, "expected stream sequence does not match"),
    "stream_snapshot": (500, 10064, "snapshot failed: {err}"),
    "stream_subject_overlap": (400, 10065, "subjects overlap with an existing stream"),
    "stream_template_create": (500, 10066, "{err}"),
    "stream_template_delete": (500, 10067, "{err}"),
    "stream_template_not_found": (404, 10068, "template not found"),
    "stream_update": (500, 10069, "{err}"),
    "stream_wrong_last_msg_id": (400, 10070, "wrong last msg ID: {id}"),
    "stream_wrong_last_sequence": (400, 10071, "wrong last sequence: {seq}"),
    "temp_storage_failed": (500, 10072, "JetStream unable to open temp storage for restore"),
    "template_name_not_match_subject": (400, 10073, "template name in subject does not match request"),
    "stream_replicas_not_supported": (500, 10074, "replicas > 1 not supported in non-clustered mode"),
    "peer_remap": (503, 10075, "peer remap failed"),
    "not_enabled": (503, 10076, "JetStream not enabled"),
    "stream_store_failed": (503, 10077, "{err}"),
    "consumer_config_required": (400, 10078, "consumer config required"),
    "consumer_deliver_to_wildcards": (400, 10079, "consumer deliver subject has wildcards"),
    "consumer_push_max_waiting": (400, 10080, "consumer in push mode can not set max waiting"),
    "consumer_deliver_cycle": (400, 10081, "consumer deliver subject forms a cycle"),
    "consumer_max_pending_ack_policy_required": (
        400,
        10082,
        "consumer requires ack policy for max ack pending",
    ),
    "consumer_small_heartbeat": (400, 10083, "consumer idle heartbeat needs to be >= 100ms"),
    "consumer_pull_requires_ack": (
        400,
        10084,
        "consumer in pull mode requires explicit ack policy on workqueue stream",
    ),
    "consumer_pull_not_durable": (400, 10085, "consumer in pull mode requires a durable name"),
    "consumer_pull_with_rate_limit": (400, 10086, "consumer in pull mode can not have rate limit set"),
    "consumer_max_waiting_negative": (400, 10087, "consumer max waiting needs to be positive"),
    "consumer_hb_requires_push": (400, 10088, "consumer idle heartbeat requires a push based consumer"),
    "consumer_fc_requires_push": (400, 10089, "consumer flow control requires a push based consumer"),
    "consumer_direct_requires_push": (400, 10090, "consumer direct requires a push based consumer"),
    "consumer_direct_requires_ephemeral": (400, 10091, "consumer direct requires an ephemeral consumer"),
    "consumer_on_mapped": (400, 10092, "consumer direct on a mapped consumer"),
    "consumer_filter_not_subset": (
        400,
        10093,
        "consumer filter subject is not a valid subset of the interest subjects",
    ),
    "consumer_invalid_policy": (400, 10094, "{err}"),
    "consumer_invalid_sampling": (400, 10095, "failed to parse consumer sampling configuration: {err}"),
    "stream_invalid": (500, 10096, "stream not valid"),
    "stream_header_exceeds_maximum": (400, 10097, "header size exceeds maximum allowed of 64k"),
    "consumer_wq_requires_explicit_ack": (400, 10098, "workqueue stream requires explicit ack"),
    "consumer_wq_multiple_unfiltered": (
        400,
        10099,
        "multiple non-filtered consumers not allowed on workqueue stream",
    ),
    "consumer_wq_consumer_not_unique": (400, 10100, "filtered consumer not unique on workqueue stream"),
    "consumer_wq_consumer_not_deliver_all": (400, 10101, "consumer must be deliver all on workqueue stream"),
    "consumer_name_too_long": (400, 10102, "consumer name is too long, maximum allowed is {max}"),
    "consumer_bad_durable_name": (400, 10103, "durable name can not contain '.', '*', '>'"),
    "consumer_store_failed": (500, 10104, "error creating store for consumer: {err}"),
    "consumer_existing_active": (400, 10105, "consumer already exists and is still active"),
    "consumer_replacement_with_different_name": (
        400,
        10106,
        "consumer replacement durable config not the same",
    ),
    "consumer_description_too_long": (
        400,
        10107,
        "consumer description is too long, maximum allowed is {max}",
    ),
    "consumer_with_flow_control_needs_heartbeats": (
        400,
        10108,
        "consumer with flow control also needs heartbeats",
    ),
    "stream_sealed": (400, 10109, "invalid operation on sealed stream"),
    "stream_purge_failed": (500, 10110, "{err}"),
    "stream_rollup_failed": (500, 10111, "{err}"),
    "consumer_invalid_deliver_subject": (400, 10112, "invalid push consumer deliver subject"),
    "stream_max_bytes_required": (400, 10113, "account requires a stream config to have max bytes set"),
    "consumer_max_request_batch_negative": (400, 10114, "consumer max request batch needs to be > 0"),
    "consumer_max_request_expires_too_small": (400, 10115, "consumer max request expires needs to be >= 1ms"),
    "consumer_max_deliver_backoff": (400, 10116, "max deliver is required to be > length of backoff values"),
    "stream_info_max_subjects": (500, 10117, "subject details would exceed maximum allowed"),
    "stream_offline": (500, 10118, "stream is offline"),
    "consumer_offline": (500, 10119, "consumer is offline"),
    "no_limits": (400, 10120, "no JetStream default or applicable tiered limit present"),
    "consumer_max_pending_ack_excess": (
        400,
        10121,
        "consumer max ack pending exceeds system limit of {limit}",
    ),
    "stream_max_stream_bytes_exceeded": (
        400,
        10122,
        "stream max bytes exceeds account limit max stream bytes",
    ),
    "stream_move_and_scale": (400, 10123, "can not move and scale a stream in a single update"),
    "stream_move_in_progress": (400, 10124, "stream move already in progress"),
    "consumer_max_request_batch_exceeded": (
        400,
        10125,
        "consumer max request batch exceeds server limit of {limit}",
    ),
    "consumer_replicas_exceeds_stream": (400, 10126, "consumer config replica count exceeds parent stream"),
    "consumer_name_contains_path_separators": (400, 10127, "Consumer name can not contain path separators"),
    "stream_name_contains_path_separators": (400, 10128, "Stream name can not contain path separators"),
    "stream_reconfigure_not_in_progress": (400, 10129, "stream reconfiguration not in progress"),
    "stream_name_exist_restore_failed": (400, 10130, "stream name already in use, cannot restore"),
    "consumer_create_filter_subject_mismatch": (
        400,
        10131,
        "Consumer create request did not match filtered subject from create subject",
    ),
    "consumer_create_durable_and_name_mismatch": (
        400,
        10132,
        "Consumer Durable and Name have to be equal if both are provided",
    ),
    "replicas_count_cannot_be_negative": (400, 10133, "replicas count cannot be negative"),
    "consumer_replicas_should_match_stream": (
        400,
        10134,
        "consumer config replicas must match interest retention stream's replicas",
    ),
    "consumer_metadata_length": (400, 10135, "consumer metadata exceeds maximum size of {limit}"),
    "consumer_duplicate_filter_subjects": (
        400,
        10136,
        "consumer cannot have both FilterSubject and FilterSubjects specified",
    ),
    "consumer_multiple_filters_not_allowed": (
        400,
        10137,
        "consumer with multiple subject filters cannot use subject based API",
    ),
    "consumer_overlapping_subject_filters": (400, 10138, "consumer subject filters cannot overlap"),
    "consumer_empty_filter": (400, 10139, "consumer filter in FilterSubjects cannot be empty"),
    "source_duplicate_detected": (400, 10140, "duplicate source configuration detected"),
    "source_invalid_stream_name": (400, 10141, "sourced stream name is invalid"),
    "mirror_invalid_stream_name": (400, 10142, "mirrored stream name is invalid"),
    "mirror_with_first_seq": (400, 10143, "stream mirrors can not have first sequence configured"),
    "source_multiple_filters_not_allowed": (
        400,
        10144,
        "source with multiple subject transforms cannot also have a single subject filter",
    ),
    "source_invalid_subject_filter": (400, 10145, "source transform source: {err}"),
    "source_invalid_transform_destination": (400, 10146, "source transform: {err}"),
    "source_overlapping_subject_filters": (400, 10147, "source filters can not overlap"),
    "consumer_already_exists": (400, 10148, "consumer already exists"),
    "consumer_does_not_exist": (400, 10149, "consumer does not exist"),
    "mirror_multiple_filters_not_allowed": (
        400,
        10150,
        "mirror with multiple subject transforms cannot also have a single subject filter",
    ),
    "mirror_invalid_subject_filter": (400, 10151, "mirror transform source: {err}"),
    "mirror_overlapping_subject_filters": (400, 10152, "mirror subject filters can not overlap"),
    "consumer_inactive_threshold_excess": (
        400,
        10153,
        "consumer inactive threshold exceeds system limit of {limit}",
    ),
    "mirror_invalid_transform_destination": (400, 10154, "mirror transform: {err}"),
    "stream_transform_invalid_source": (400, 10155, "stream transform source: {err}"),
    "stream_transform_invalid_destination": (400, 10156, "stream transform: {err}"),
    "pedantic": (400, 10157, "pedantic mode: {err}"),
    "stream_duplicate_message_conflict": (409, 10158, "duplicate message id is in process"),
    "consumer_priority_policy_without_group": (
        400,
        10159,
        "Setting PriorityPolicy requires at least one PriorityGroup to be set",
    ),
    "consumer_invalid_priority_group": (
        400,
        10160,
        "Provided priority group does not exist for this consumer",
    ),
    "consumer_empty_group_name": (400, 10161, "Group name cannot be an empty string"),
    "consumer_invalid_group_name": (
        400,
        10162,
        "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
    ),
    "stream_expected_last_seq_per_subject_not_ready": (
        503,
        10163,
        "expected last sequence per subject temporarily unavailable",
    ),
    "stream_wrong_last_sequence_constant": (400, 10164, "wrong last sequence"),
    "message_ttl_invalid": (400, 10165, "invalid per-message TTL"),
    "message_ttl_disabled": (400, 10166, "per-message TTL is disabled"),
    "stream_too_many_requests": (429, 10167, "too many requests"),
    "message_incr_disabled": (400, 10168, "message counters is disabled"),
    "message_incr_missing": (400, 10169, "message counter increment is missing"),
    "message_incr_payload": (400, 10170, "message counter has payload"),
    "message_incr_invalid": (400, 10171, "message counter increment is invalid"),
    "message_counter_broken": (400, 10172, "message counter is broken"),
    "mirror_with_counters": (400, 10173, "stream mirrors can not also calculate counters"),
    "atomic_publish_disabled": (400, 10174, "atomic publish is disabled"),
    "atomic_publish_missing_seq": (400, 10175, "atomic publish sequence is missing"),
    "atomic_publish_incomplete_batch": (400, 10176, "atomic publish batch is incomplete"),
    "atomic_publish_unsupported_header_batch": (
        400,
        10177,
        "atomic publish unsupported header used: {header}",
    ),
    "consumer_push_with_priority_group": (400, 10178, "priority groups can not be used with push consumers"),
    "atomic_publish_invalid_batch_id": (400, 10179, "atomic publish batch ID is invalid"),
    "stream_min_last_seq": (412, 10180, "min last sequence"),
    "consumer_ack_policy_invalid": (400, 10181, "consumer ack policy invalid"),
    "consumer_replay_policy_invalid": (400, 10182, "consumer replay policy invalid"),
    "consumer_ack_wait_negative": (400, 10183, "consumer ack wait needs to be positive"),
    "consumer_back_off_negative": (400, 10184, "consumer backoff needs to be positive"),
    "required_api_level": (412, 10185, "JetStream minimum api level required"),
    "mirror_with_msg_schedules": (400, 10186, "stream mirrors can not also schedule messages"),
    "source_with_msg_schedules": (400, 10187, "stream source can not also schedule messages"),
    "message_schedules_disabled": (400, 10188, "message schedules is disabled"),
    "message_schedules_pattern_invalid": (400, 10189, "message schedules pattern is invalid"),
    "message_schedules_target_invalid": (400, 10190, "message schedules target is invalid"),
    "message_schedules_ttl_invalid": (400, 10191, "message schedules invalid per-message TTL"),
    "message_schedules_rollup_invalid": (400, 10192, "message schedules invalid rollup"),
    "stream_expected_last_seq_per_subject_invalid": (
        400,
        10193,
        "missing sequence for expected last sequence per subject",
    ),
    "stream_offline_reason": (500, 10194, "stream is offline: {err}"),
    "consumer_offline_reason": (500, 10195, "consumer is offline: {err}"),
    "consumer_priority_group_with_policy_none": (
        400,
        10196,
        "consumer can not have priority groups when policy is none",
    ),
    "consumer_pinned_ttl_without_priority_policy_none": (
        400,
        10197,
        "PinnedTTL cannot be set when PriorityPolicy is none",
    ),
    "mirror_with_atomic_publish": (400, 10198, "stream mirrors can not also use atomic publishing"),
    "atomic_publish_too_large_batch": (400, 10199, "atomic publish batch is too large: {size}"),
    "atomic_publish_invalid_batch_commit": (400, 10200, "atomic publish batch commit is invalid"),
    "atomic_publish_contains_duplicate_message": (
        400,
        10201,
        "atomic publish batch contains duplicate message id",
    ),
    "cluster_server_member_change_inflight": (400, 10202, "cluster member change is in progress"),
    "message_schedules_source_invalid": (400, 10203, "message schedules source is invalid"),
    "consumer_invalid_reset": (400, 10204, "invalid reset: {err}"),
    "batch_publish_disabled": (400, 10205, "batch publish is disabled"),
    "batch_publish_invalid_pattern": (400, 10206, "batch publish pattern is invalid"),
    "batch_publish_invalid_batch_id": (400, 10207, "batch publish ID is invalid"),
    "batch_publish_unknown_batch_id": (400, 10208, "batch publish ID unknown"),
    "mirror_with_batch_publish": (400, 10209, "stream mirrors can not also use batch publishing"),
    "atomic_publish_too_many_inflight": (429, 10210, "atomic publish too many inflight"),
    "batch_publish_too_many_inflight": (429, 10211, "batch publish too many inflight"),
    "message_schedules_scheduler_invalid": (400, 10212, "message schedules invalid scheduler"),
    "mirror_durable_consumer_cfg_invalid": (400, 10213, "stream mirror consumer config is invalid"),
    "mirror_consumer_requires_ack_fc": (
        400,
        10214,
        "stream mirror consumer requires flow control ack policy",
    ),
    "source_durable_consumer_cfg_invalid": (400, 10215, "stream source consumer config is invalid"),
    "source_durable_consumer_duplicate_detected": (400, 10216, "duplicate stream source consumer detected"),
    "source_consumer_requires_ack_fc": (
        400,
        10217,
        "stream source consumer requires flow control ack policy",
    ),
    "consumer_ack_fc_requires_push": (400, 10218, "flow control ack policy requires a push based consumer"),
    "consumer_ack_fc_requires_fc": (400, 10219, "flow control ack policy requires flow control"),
    "consumer_ack_fc_requires_max_ack_pending": (
        400,
        10220,
        "flow control ack policy requires max ack pending",
    ),
    "consumer_ack_fc_requires_no_ack_wait": (400, 10221, "flow control ack policy requires unset ack wait"),
    "consumer_ack_fc_requires_no_max_deliver": (
        400,
        10222,
        "flow control ack policy requires unset max deliver",
    ),
    "message_schedules_time_zone_invalid": (400, 10223, "message schedules time zone is invalid"),
    "cluster_rescue": (400, 10224, "JetStream system rescue not applied: {err}"),
    "consumer_stream_identity_mismatch": (400, 10225, "consumer's stream identity does not match: {msg}"),
    "stream_reconfigure_in_progress": (400, 10226, "stream reconfiguration already in progress"),
    "message_source_hdr_not_allowed": (400, 10227, "message stream source header is not allowed"),
}
