"""Faults in kernels for devices, seeded one at a time: (what, file, exact text, replacement).

As in mutants.py. Each is to be found by the emulated tests of its own operation: TESTS.
"""

ATTENTION = "kernels/cuda/attention_backward.cu"
ATTENTION_MMA = "kernels/cuda/attention_mma.cuh"
ATTENTION_MMA_BACKWARD = "kernels/cuda/attention_mma_backward.cu"
COLUMNS = "kernels/cuda/columns.cuh"
CROSS_BOTH = "kernels/cuda/cross_entropy_both_passes.cu"
CROSS_FORWARD = "kernels/cuda/cross_entropy_forward.cu"
CROSS_SLOPE = "kernels/cuda/cross_entropy_slope.cuh"
CROSS_SUM = "kernels/cuda/cross_entropy_sum.cuh"
DROPOUT = "kernels/cuda/dropout.cu"
EMBEDDING = "kernels/cuda/embedding.cu"
HEADS = "kernels/cuda/head_norm.cu"
ADAMW = "kernels/cuda/adamw.cu"
MERGE = "kernels/cuda/cross_entropy_merge.cu"
NORM = "kernels/cuda/norm.cu"
NORM_FORWARD = "kernels/cuda/norm_forward.cuh"
NORM_ROWS = "kernels/cuda/norm_rows.cuh"
PRODUCT = "kernels/cuda/product.cpp"
DESCRIPTION = "kernels/cuda/product_description.cpp"
ROPE = "kernels/cuda/rope.cu"
SUM = "kernels/cuda/sum.cu"


def asked(family, *files):
    """The cases that the tester has of a family, and these files of tests, as Catch2 chooses them;
    run.py writes the outer brackets."""
    return "],[#".join([*files, f"op_tester_test][{family}"])


# The tests below tests/kernels_cuda that are to find what is planted in a source.
TESTS = {
    ATTENTION: asked("attention", "attention_test"),
    ATTENTION_MMA: asked("attention", "attention_mma_test"),
    ATTENTION_MMA_BACKWARD: asked("attention", "attention_mma_test"),
    ADAMW: asked("adamw", "adamw_test"),
    COLUMNS: asked("norm", "norm_test"),
    CROSS_BOTH: asked("cross_entropy", "cross_entropy_test"),
    CROSS_FORWARD: asked("cross_entropy", "cross_entropy_test"),
    CROSS_SLOPE: asked("cross_entropy", "cross_entropy_test"),
    CROSS_SUM: asked("cross_entropy", "cross_entropy_test"),
    DROPOUT: asked("dropout"),
    EMBEDDING: asked("embedding", "embedding_test"),
    HEADS: asked("head_norm"),
    MERGE: asked("cross_entropy", "cross_entropy_test"),
    NORM: asked("norm", "norm_test"),
    NORM_FORWARD: asked("norm", "norm_test"),
    NORM_ROWS: asked("norm", "norm_test"),
    PRODUCT: asked("linear", "product_test"),
    DESCRIPTION: asked("linear", "product_test"),
    ROPE: asked("rope", "rope_test"),
    SUM: asked("sum", "sum_test"),
}

MUTANTS = [
    # Sums over columns, of the gradients of gains and biases.
    ("the last row of a block of rows is not in the sum of its columns", COLUMNS,
     "        if (r + u * slots < end)\n          body.add(in[u], sum);",
     "        if (r + u * slots < end - 1)\n          body.add(in[u], sum);"),
    ("sums of columns are read before everybody wrote them", COLUMNS,
     "      of_slot[slot][lane * W + k] = sum[s][k];\n    __syncthreads();",
     "      of_slot[slot][lane * W + k] = sum[s][k];"),
    ("what was in the gradient of a gain is overwritten", COLUMNS,
     "(total.accumulates ? *to : 0.0f) + sum", "0.0f + sum"),
    ("the first gradient of a gain in a step is added to that of the step before", COLUMNS,
     "(total.accumulates ? *to : 0.0f) + sum", "*to + sum"),
    # Norms.
    ("the offset of a gain is left out backwards", NORM,
     ".residual = op.residual,\n                                               .R = op.R,\n"
     "                                               .C = op.C,\n"
     "                                               .gain_offset = op.gain_offset,",
     ".residual = op.residual,\n                                               .R = op.R,\n"
     "                                               .C = op.C,\n"
     "                                               .gain_offset = 0,"),
    ("vectors are loaded from a residual that is not aligned", NORM,
     "all_aligned(op.dx, op.dy, op.x, op.gain, op.residual));", "all_aligned(op.dx, op.dy, op.x, op.gain));"),
    ("the gradient of a gain does not know the mean", NORM_ROWS, ".mean = centred ? op.mean : nullptr",
     ".mean = centred && R < 0 ? op.mean : nullptr"),
    ("a sum that norm makes is stored for the first of a group's rows alone", NORM_FORWARD,
     "put(op.sum + op.place(r + b * rows) + v * W, x[b][p]);",
     "put(op.sum + op.place(r) + v * W, x[b][p]);"),
    ("long rows are normalised without what was added to them", NORM_FORWARD,
     "const T* const normalised = Sums ? op.sum : op.x;", "const T* const normalised = op.x;"),
    ("heads of the second group are those of the first", HEADS,
     "r * row + (g - r * groups.by()) * group", "r * row + (g - r * groups.by()) * group * 0"),
    # Softmax and its loss.
    ("a thread's sum does not shrink when it finds a higher logit", CROSS_SUM,
     "      sum *= exponential(highest, most);\n", ""),
    ("the softmax forgets the last column behind the vectors", CROSS_SUM,
     "  if (me < n - after)\n    mine.add", "  if (me < n - after - 1)\n    mine.add"),
    ("parts of a row are added as if their highest logits were one", CROSS_FORWARD,
     "from[p].highest == all.highest\n", "from[p].highest <= all.highest\n"),
    ("the highest logit of a block is that of its first warp", CROSS_SUM,
     "      highest = fmaxf(highest, of_warp[w]);", "      highest = of_warp[0 * w];"),
    ("a masked row's gradient is not zero where its logits are infinite", CROSS_SLOPE,
     "slope.dloss == 0 ? 0 : int(vocabulary)", "int(vocabulary)"),
    ("the target's slope is e^x - 1 of what was rounded", CROSS_SLOPE,
     "return expm1f(x - lse) * dloss;", "return exponential(x, lse) * dloss;"),
    ("the padding of the vocabulary has a gradient", CROSS_SLOPE,
     "if (column + W <= seen_) {", "if (column + W <= V_) {"),
    ("a row's gradient is computed before everybody knows its lse", CROSS_BOTH,
     "    __syncthreads();\n", ""),
    ("the first part of a row keeps its logits", CROSS_BOTH, "part >= 0; --part", "part > 0; --part"),
    ("parts of the vocabulary beyond 128 are not in the loss", MERGE,
     "double sum = more ? share(before) : 0", "double sum = 0"),
    # Turning.
    ("the sine does not turn back", ROPE, "(backward ? 1 : 0)", "(backward ? 0 : 0)"),
    ("angles are floats", ROPE, "double(frequency) * double(position)", "double(frequency * float(position))"),
    ("the next rows' sines are made before everybody turned by the last", ROPE,
     "x[u].turn(at[u], partner, cosine + pair[u], sine + pair[u]);\n    }\n    __syncthreads();",
     "x[u].turn(at[u], partner, cosine + pair[u], sine + pair[u]);\n    }"),
    # Dropout.
    ("what is kept is not scaled", DROPOUT, "Drops ? scale : 1.0f", "1.0f"),
    ("dropout counts its rows from the first of this rank", DROPOUT,
     "const std::int64_t q = op.first_row + r, s", "const std::int64_t q = r, s"),
    ("the second half of a pack draws the words of the first", DROPOUT,
     "word / 4 + unsigned(k / 4)", "word / 4 + unsigned(k / 8)"),
    # The optimizer.
    ("weights decay by the rate alone", ADAMW, ".decay = op.rate * p.weight_decay,", ".decay = op.rate,"),
    ("the second moment is that of gradients before they are scaled", ADAMW,
     "by.rest2 * (g * g)", "by.rest2 * (at.dx.x[k] * at.dx.x[k])"),
    ("epsilon is below the root", ADAMW, "sqrtf(at.v.x[k] * by.inverse2) + by.eps", "sqrtf(at.v.x[k] * by.inverse2 + by.eps)"),
    ("fingerprints count the pairs of a grain from the beginning of its array", ADAMW,
     "state[s], k + 1, (at + s * step + k) / 2)", "state[s], k + 1, (origin + at + s * step + k) / 2)"),
    ("half a pair at the end of a grain has the word behind it", ADAMW,
     "  adamw_state<1> low, high = {};\n  read(low, piece, origin + i);",
     "  adamw_state<1> low, high = {};\n  high.x.x[0] = piece.dx[origin + i];\n  read(low, piece, origin + i);"),
    # The embedding.
    ("a later tile of keys is not looked into", EMBEDDING,
     "    place += low - begin;", "    place += begin > 2 * sort_tile ? 0 : low - begin;"),
    ("a part of a token's rows is one too long", EMBEDDING,
     "const std::int64_t end = p + part < R ? p + part : R;",
     "const std::int64_t end = p + part + 1 < R ? p + part + 1 : R;"),
    ("of a token's further parts the first alone is added", EMBEDDING,
     "is[u] = there(p + u * part);", "is[u] = u == 0 && there(p + u * part);"),
    ("what was in the table is overwritten", EMBEDDING, "  if (mine && first_part) {\n", "  if (mine && first_part && C < 0) {\n"),
    ("tokens of another part of the table are added to its last row", EMBEDDING,
     "const bool here = row >= 0 && row < to.rows;", "const bool here = row >= 0 && row <= to.rows;"),
    # Sums.
    ("norms leave out what is behind the last whole block", SUM,
     "const std::int64_t end = left < norm_block ? left : norm_block;",
     "const std::int64_t end = left < norm_block ? left / norm_lanes * norm_lanes : norm_block;"),
    ("more sources than a launch takes are added from the beginning", SUM, "(more ? more[first + s] : table.x[first + s])",
     "(more ? more[(first + s) % most_sources] : table.x[first + s])"),
    ("fingerprints count the pairs of a gradient's block from the block's beginning", SUM,
     "const std::int64_t first = in_grain + quarter * lanes_a_thread;", "const std::int64_t first = quarter * lanes_a_thread;"),
    # What attention keeps in shared memory.
    ("dropped probabilities are added to the gradient of values", ATTENTION, "          p.x[i] *= m;\n", ""),
    ("the gradient of keys is added before everybody read the weights of values", ATTENTION,
     "    __syncthreads();\n    store_weights(own.weights, ds);\n    add_weighted<Rows, Dp>(a, dk",
     "    store_weights(own.weights, ds);\n    add_weighted<Rows, Dp>(a, dk"),
    # Attention on tensor cores.
    ("keys are read from where another row has them", ATTENTION_MMA,
     "turn_ = (lane / 16) ^ (lane % 8);", "turn_ = lane / 16;"),
    ("gradients are overwritten before everybody read them", ATTENTION_MMA_BACKWARD,
     "    __syncthreads();  // all are done with the gradients\n", ""),
    # Products.
    ("a gradient is not multiplied by the slope of what made the input", PRODUCT,
     "  if (op.activation != epilogue::none)\n    run(activation_backward<T>",
     "  if (op.activation != epilogue::none && op.R < 0)\n    run(activation_backward<T>"),
    ("the first product of a step is added to that of the step before", DESCRIPTION,
     "beta = at_.adds ? 1 : 0", "beta = key_.role == product_role::backward_weight ? 1 : 0"),
    ("a product with cuBLASLt's GELU is asked for on rows that it has none for", PRODUCT,
     "N % 8 == 0 && K % 8 == 0\n", "N % 8 == 0 && K % 4 == 0\n"),
]
