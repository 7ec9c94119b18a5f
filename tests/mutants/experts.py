"""Faults in models with experts, seeded one at a time: (what, (program, words), places).

A place is (file, exact text, replacement), as in mutants.py; a fault may need several. The words are the name of a test
file, or options of the matrix.
"""

DISPATCH = "runtime/autograd/dispatch.cpp"
MATRIX = ("matrix", ["--stop", "--only", "by_source"])
ROUTER = "runtime/model/layers/router.cpp"
SPEC = "runtime/parameters/spec.cpp"
VERIFICATION = "runtime/trainer/verification.cpp"


def tests(room, file):
    return f"test_runtime_{room}", ["--abort", "--filenames-as-tags", f"[#{file}]"]


MUTANTS = [
    # The exchange of rows.
    ("groups of a product are in the order (expert, source)", tests("autograd", "dispatch_test"), [
        (DISPATCH,
         "    for (std::int64_t s = 0; s < EP; ++s)\n      for (std::int64_t e = 0; e < own; ++e) {\n",
         "    for (std::int64_t e = 0; e < own; ++e)\n      for (std::int64_t s = 0; s < EP; ++s) {\n")]),
    ("counts of rows are used although the group has ended", tests("autograd", "dispatch_test"), [
        (DISPATCH, "  tape.group(along).check();\n", "")]),
    ("with allgather a rank takes rows of the first source for those of others", tests("autograd", "dispatch_test"), [
        (DISPATCH, "                of_source(s).subspan(std::size_t(at.rank) * own, own),\n                begin);",
         "                of_source(s).subspan(std::size_t(at.rank) * own, own),\n                0 * begin);")]),
    ("each copy of a row travels with the weights of all of them", tests("autograd", "dispatch_test"), [
        (DISPATCH, "sent(tape, weights, true, by)};", "sent(tape, weights, false, by)};")]),
    # Gradients by source.
    ("gradients are summed in the order (replica, source)", tests("trainer", "expert_sources_test"), [
        ("runtime/parameters/resident_store.hpp", "return source * replicas_ + replica_;",
         "return replica_ * (parts() / replicas_) + source;")]),
    ("sources add to gradients in temporary memory", tests("trainer", "expert_sources_test"), [
        ("runtime/trainer/worker.cpp",
         " && !sums_sources(settings, model)", " && (!sums_sources(settings, model) || true)")]),
    ("only the gradients of the first source are summed", tests("trainer", "expert_sources_test"), [
        ("runtime/trainer/worker_reduction.cpp",
         "p < store.parts(store.entries()[std::size_t(x.first)]);", "p < store.replicas();")]),
    ("all sources add to the gradient of the first one", tests("model", "experts_test"), [
        ("runtime/autograd/experts.cpp",
         "add_groups(tape, first, end, sources[first]);", "add_groups(tape, first, end, 0);")]),
    # Stacks of matrices.
    ("all matrices of a stack have the keys of the first one", tests("optim", "stack_test"), [
        ("runtime/optim/optimizer_state.cpp", ".shard = shard_index(e.spec, store_.axes(), matrix),",
         ".shard = shard_index(e.spec, store_.axes(), 0 * matrix),")]),
    ("grains of a stack are counted from the rank's first matrix", tests("optim", "stack_test"), [
        ("runtime/optim/optimizer_state.cpp", "const auto first = x.range.begin - matrix * matrices.each;",
         "const auto first = x.range.begin - 0 * matrix * matrices.each;")]),
    ("sections of a stack are cut together", MATRIX, [
        (SPEC, "part_of(of, lies.sections, at);", "part_of(of, x.stacked ? 1 : lies.sections, at);")]),
    ("muon takes a part of a matrix for the whole", tests("parameters", "spec_test"), [
        (SPEC, "? axis::expert_tensor : axis::tensor;", "? axis::tensor : axis::tensor;")]),
    # Norms and statistics.
    ("norms of experts are counted once per rank that holds them", MATRIX, [
        ("actors/host/merged_reports.cpp", "    if (shares)\n      add_share(*at, x);",
         "    if (shares || x.layers == runtime::axis_view::experts)\n      add_share(*at, x);")]),
    ("norms count statistics", tests("optim", "statistics_test"), [
        ("runtime/optim/optimizer_state.cpp", "parts_[i].range, !parts_[i].counted && !told[i].repeated, {}}",
         "parts_[i].range, !told[i].repeated, {}}")]),
    ("rows are counted by each forward pass", tests("model", "experts_test"), [
        ("runtime/autograd/router.cpp", "  n->parameter = parameter;\n  tape.record(std::move(n));",
         "  n->parameter = parameter;\n  n->weight_gradients(tape);"),
        (ROUTER, "  if (of.bias < 0 || !tape.recording())", "  if (of.bias < 0 || !p.settings.training)"),
        (ROUTER, "void count(const router_layer& of, tape& tape, ",
         "void count(const router_layer& of, tape& tape, const pass& p, "),
        (ROUTER, "  count(*this, tape, found, choice);", "  count(*this, tape, p, found, choice);")]),
    ("a bias counts dropped rows", tests("model", "experts_test"), [
        (ROUTER, "  count(*this, tape, found, choice);",
         "  auto all = choice;\n  all.chosen = elements_of<std::int32_t>(tape.stream(), found.chosen);\n"
         "  count(*this, tape, found, all);")]),
    ("a recomputed router counts the rows of all replicas again", tests("model", "experts_test"), [
        ("runtime/model/segment.cpp", "  if (const auto found = counted.find(place.segment); found != counted.end())\n",
         "  if (const auto found = counted.find(-1); found != counted.end())\n"),
        ("runtime/model/segment.cpp", "counted.emplace(place.segment,", "counted.insert_or_assign(place.segment,")]),
    ("counts of a step stay for the next one", tests("trainer", "global_balance_test"), [
        ("runtime/trainer/worker.cpp", "    home->step_counts.begin_step();\n", "")]),
    ("each replica has the whole gradient of a loss of all", tests("trainer", "global_balance_test"), [
        (ROUTER, "p.average(x.weight / double(p.settings.step_counts->replicas()));", "p.average(x.weight);")]),
    ("an evaluation counts the micro-batches before", tests("trainer", "global_balance_test"), [
        ("runtime/autograd/step_counts.cpp", "  if (!accumulates)\n", "  if (!accumulates && rows < 0)\n")]),
    # Verification.
    ("replicas that share experts verify different passes", tests("trainer", "verification_test"), [
        (VERIFICATION, "const int first = x.replica - x.replica % x.span;", "const int first = x.replica;")]),
    ("the next replica verifies a pass, also in a group that shares experts", tests("trainer", "verification_test"), [
        (VERIFICATION, "return (replica + span) % replicas;", "return (replica + 1 + 0 * span) % replicas;")]),
    ("ranks with experts are compared as those of dense layers", tests("layout", "seats_test"), [
        ("runtime/layout/seats.cpp",
         "(layers == axis_view::dense ? dense_ : experts_)\n", "(layers == axis_view::dense ? dense_ : dense_)\n")]),
]
