"""Faults in device kernels, planted one at a time: (description, file, exact text, replacement).

The format is that of mutants.py. The emulated tests of the same operation must find each fault: TESTS.
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
GROUPED = "kernels/cuda/grouped_linear.cu"
HEADS = "kernels/cuda/head_norm.cu"
HEAD_COPIES = "kernels/cuda/heads.cu"
ADAMW = "kernels/cuda/adamw.cu"
MERGE = "kernels/cuda/cross_entropy_merge.cu"
NORM = "kernels/cuda/norm.cu"
NORM_FORWARD = "kernels/cuda/norm_forward.cuh"
NORM_ROWS = "kernels/cuda/norm_rows.cuh"
PRODUCT = "kernels/cuda/product.cpp"
DESCRIPTION = "kernels/cuda/product_description.cpp"
PERMUTE = "kernels/cuda/permute.cu"
PRODUCT_TILE = "kernels/cuda/product_tile.cuh"
ROPE = "kernels/cuda/rope.cu"
SUM = "kernels/cuda/sum.cu"


def asked(family, *files):
    """Catch2 tags for the operation tester's cases of a family and for these test files; run.py adds the outer
    brackets."""
    return "],[#".join([*files, f"op_tester_test][{family}"])


# The tests below tests/kernels_cuda that must find faults in each source.
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
    GROUPED: asked("grouped_linear"),
    HEADS: asked("head_norm"),
    HEAD_COPIES: asked("heads"),
    MERGE: asked("cross_entropy", "cross_entropy_test"),
    NORM: asked("norm", "norm_test"),
    NORM_FORWARD: asked("norm", "norm_test"),
    NORM_ROWS: asked("norm", "norm_test"),
    PRODUCT: asked("linear", "product_test"),
    DESCRIPTION: asked("linear", "product_test"),
    PERMUTE: asked("permute"),
    PRODUCT_TILE: asked("grouped_linear"),
    ROPE: asked("rope", "rope_test"),
    SUM: asked("sum", "sum_test"),
}

MUTANTS = [
    # Sums over columns, of the gradients of gains and biases.
    ("the last row of a block of rows is not in the sum of its columns", COLUMNS,
     "        if (r + u * slots < end)\n          body.add(in[u], sum);",
     "        if (r + u * slots < end - 1)\n          body.add(in[u], sum);"),
    ("sums of columns are read before all threads wrote them", COLUMNS,
     "      of_slot[slot][lane * W + k] = sum[s][k];\n    __syncthreads();",
     "      of_slot[slot][lane * W + k] = sum[s][k];"),
    ("the old gradient of a gain is overwritten", COLUMNS,
     "(total.accumulates ? *to : 0.0f) + sum", "0.0f + sum"),
    ("the first gradient of a gain in a step is added to that of the previous step", COLUMNS,
     "(total.accumulates ? *to : 0.0f) + sum", "*to + sum"),
    # Norms.
    ("the backward pass ignores the offset of a gain", NORM,
     ".residual = op.residual,\n                                               .R = op.R,\n"
     "                                               .C = op.C,\n"
     "                                               .gain_offset = op.gain_offset,",
     ".residual = op.residual,\n                                               .R = op.R,\n"
     "                                               .C = op.C,\n"
     "                                               .gain_offset = 0,"),
    ("vectors are loaded from a misaligned residual", NORM,
     "all_aligned(op.dx, op.dy, op.x, op.gain, op.residual));", "all_aligned(op.dx, op.dy, op.x, op.gain));"),
    ("the gradient of a gain ignores the mean", NORM_ROWS, ".mean = centred ? op.mean : nullptr",
     ".mean = centred && R < 0 ? op.mean : nullptr"),
    ("norm stores its residual sum only for the first row of a group", NORM_FORWARD,
     "put(op.sum + op.place(r + b * rows) + v * W, x[b][p]);",
     "put(op.sum + op.place(r) + v * W, x[b][p]);"),
    ("long rows are normalised without their residual", NORM_FORWARD,
     "const T* const normalised = Sums ? op.sum : op.x;", "const T* const normalised = op.x;"),
    ("heads of the second group are those of the first", HEADS,
     "r * row + (g - r * groups.by()) * group", "r * row + (g - r * groups.by()) * group * 0"),
    ("the sum of heads misses the last one", HEAD_COPIES, "g < int(op.G); ++g", "g < int(op.G) - 1; ++g"),
    # Experts.
    ("a tile of a product is multiplied before all threads loaded it", PRODUCT_TILE,
     "    copies.wait();\n    __syncthreads();", "    copies.wait();"),
    ("rows of the next group are in the tile of a group", GROUPED,
     "at_most(group.rows - row, tile_rows)", "at_most(group.rows - row + 1, tile_rows)"),
    ("the second group of an expert overwrites the gradient of the first", GROUPED,
     "to.accumulates = true;", "to.accumulates = accumulates;"),
    ("the next group is loaded before all threads multiplied the last tile", GROUPED,
     "    __syncthreads();  // all threads have read the shared tiles\n", ""),
    ("groups behind a full list replace the gradients of those before", GROUPED,
     "    accumulates = true;\n    list.count = 0;", "    list.count = 0;"),
    ("every group has the bias of the first expert", GROUPED,
     "bias + group.expert * columns + column", "bias + column"),
    ("rows go to slots without their weights", PERMUTE,
     "in.weight = weight ? weight[from] : 1.0f;", "in.weight = 1.0f;"),
    ("all slots of a row have the weight of the first", PERMUTE,
     "weight ? weight[j] : 1.0f", "weight ? weight[r * slots] : 1.0f"),
    ("a dropped slot keeps an old gradient", PERMUTE,
     "if (lane == 0)\n      op.dweight[j] = sum;", "if (lane == 0 && from >= 0)\n      op.dweight[j] = sum;"),
    # Softmax and its loss.
    ("a thread's sum is not rescaled when it finds a higher logit", CROSS_SUM,
     "      sum *= exponential(highest, most);\n", ""),
    ("the softmax forgets the last column behind the vectors", CROSS_SUM,
     "  if (me < n - after)\n    mine.add", "  if (me < n - after - 1)\n    mine.add"),
    ("parts of a row are added as if they had the same highest logit", CROSS_FORWARD,
     "from[p].highest == all.highest\n", "from[p].highest <= all.highest\n"),
    ("the highest logit of a block is that of its first warp", CROSS_SUM,
     "      highest = fmaxf(highest, of_warp[w]);", "      highest = of_warp[0 * w];"),
    ("a masked row with infinite logits has a gradient", CROSS_SLOPE,
     "slope.dloss == 0 ? 0 : int(vocabulary)", "int(vocabulary)"),
    ("the target's slope is computed as a rounded e^x, minus 1", CROSS_SLOPE,
     "return expm1f(x - lse) * dloss;", "return exponential(x, lse) * dloss;"),
    ("the padding of the vocabulary has a gradient", CROSS_SLOPE,
     "if (column + W <= seen_) {", "if (column + W <= V_) {"),
    ("a row's gradient is computed before all threads know its lse", CROSS_BOTH,
     "    __syncthreads();\n", ""),
    ("the first part of a row keeps its logits", CROSS_BOTH, "part >= 0; --part", "part > 0; --part"),
    ("parts of the vocabulary beyond 128 are not in the loss", MERGE,
     "double sum = more ? share(before) : 0", "double sum = 0"),
    # Rotary embedding.
    ("the backward pass does not negate the sine", ROPE, "(backward ? 1 : 0)", "(backward ? 0 : 0)"),
    ("angles are floats", ROPE, "double(frequency) * double(position)", "double(frequency * float(position))"),
    ("the next rows' sines are written before all threads used the last ones", ROPE,
     "x[u].turn(at[u], partner, cosine + pair[u], sine + pair[u]);\n    }\n    __syncthreads();",
     "x[u].turn(at[u], partner, cosine + pair[u], sine + pair[u]);\n    }"),
    # Dropout.
    ("kept elements are not scaled", DROPOUT, "fmaf(value, scale, in.residual[k])", "fmaf(value, 1.0f, in.residual[k])"),
    ("dropout counts rows from the first one of its rank", DROPOUT,
     "const std::int64_t q = op.first_row + r, s", "const std::int64_t q = r, s"),
    ("the second half of a pack uses the random words of the first", DROPOUT,
     "word / 4 + unsigned(k / 4)", "word / 4 + unsigned(k / 8)"),
    # The optimizer.
    ("weights decay by the learning rate alone", ADAMW, ".decay = op.rate * p.weight_decay,", ".decay = op.rate,"),
    ("the second moment uses unscaled gradients", ADAMW,
     "by.rest2 * (g * g)", "by.rest2 * (at.dx.x[k] * at.dx.x[k])"),
    ("epsilon is inside the square root", ADAMW, "sqrtf(at.v.x[k] * by.inverse2) + by.eps", "sqrtf(at.v.x[k] * by.inverse2 + by.eps)"),
    ("fingerprints count the pairs of a grain from the beginning of its array", ADAMW,
     "state[s], k + 1, (at + s * step + k) / 2)", "state[s], k + 1, (origin + at + s * step + k) / 2)"),
    ("half a pair at the end of a grain includes the next word", ADAMW,
     "  adamw_state<1> low, high = {};\n  read(low, piece, origin + i);",
     "  adamw_state<1> low, high = {};\n  high.x.x[0] = piece.dx[origin + i];\n  read(low, piece, origin + i);"),
    # The embedding.
    ("later tiles of keys are not searched", EMBEDDING,
     "    place += low - begin;", "    place += begin > 2 * sort_tile ? 0 : low - begin;"),
    ("a part of a token's rows is one row too long", EMBEDDING,
     "const std::int64_t end = p + part < R ? p + part : R;",
     "const std::int64_t end = p + part + 1 < R ? p + part + 1 : R;"),
    ("only the first of a token's further parts is added", EMBEDDING,
     "is[u] = there(p + u * part);", "is[u] = u == 0 && there(p + u * part);"),
    ("the old gradient of the table is overwritten", EMBEDDING, "  if (mine && first_part) {\n", "  if (mine && first_part && C < 0) {\n"),
    ("tokens of another part of the table are added to its last row", EMBEDDING,
     "const bool here = row >= 0 && row < to.rows;", "const bool here = row >= 0 && row <= to.rows;"),
    # Sums.
    ("norms ignore the elements behind the last whole block", SUM,
     "const std::int64_t end = left < norm_block ? left : norm_block;",
     "const std::int64_t end = left < norm_block ? left / norm_lanes * norm_lanes : norm_block;"),
    ("sources beyond the limit of a launch are replaced by the first ones", SUM, "(more ? more[first + s] : table.x[first + s])",
     "(more ? more[(first + s) % most_sources] : table.x[first + s])"),
    ("fingerprints count the pairs of a gradient's block from the block's beginning", SUM,
     "const std::int64_t first = in_grain + quarter * lanes_a_thread;", "const std::int64_t first = quarter * lanes_a_thread;"),
    # Shared memory of attention.
    ("gradients of values have the stride of keys", ATTENTION,
     "{op.dv + value_place, a.value_row,", "{op.dv + value_place, a.key_row,"),
    ("dropped probabilities are added to the gradient of values", ATTENTION, "          p.x[i] *= m;\n", ""),
    ("the gradient of keys is added before all threads read the weights of values", ATTENTION,
     "    __syncthreads();\n    store_weights(own.weights, ds);\n    add_weighted<Rows, Dp, T>(a.vectors, dk",
     "    store_weights(own.weights, ds);\n    add_weighted<Rows, Dp, T>(a.vectors, dk"),
    # Attention on tensor cores.
    ("keys are read from the place of another row", ATTENTION_MMA,
     "turn_ = (lane / 16) ^ (lane % 8);", "turn_ = lane / 16;"),
    ("gradients are overwritten before all threads read them", ATTENTION_MMA_BACKWARD,
     "    __syncthreads();  // all are done with the gradients\n", ""),
    # Products.
    ("a gradient is not multiplied by the slope of the activation", PRODUCT,
     "  if (op.activation != epilogue::none)\n    run(activation_backward<T>",
     "  if (op.activation != epilogue::none && op.R < 0)\n    run(activation_backward<T>"),
    ("the first product of a step is added to that of the previous step", DESCRIPTION,
     "beta = at_.adds ? 1 : 0", "beta = key_.role == product_role::backward_weight ? 1 : 0"),
    ("cuBLASLt's GELU is requested for rows that it does not support", PRODUCT,
     "N % 8 == 0 && K % 8 == 0\n", "N % 8 == 0 && K % 4 == 0\n"),
]
