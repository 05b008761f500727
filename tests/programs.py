"""Textbook programs in NumPy, which know nothing of formats.

Sources: conjugate gradients, Hestenes and Stiefel (1952) as in Shewchuk (1994), B2; LU with partial pivoting, Golub and
Van Loan, Matrix Computations (2013), algorithm 3.4.1; iterative refinement, Carson and Higham (2018), algorithm 1.1;
FFT, Cooley and Tukey (1965), radix 2; the Lorenz system (1963) by the classical Runge-Kutta method; k-means, Lloyd
(1982); Kalman (1960).
"""

import numpy as np


def conjugate_gradients(A, b, x, steps):
    """x after a number of steps on A x = b, A symmetric and positive definite."""
    r = b - A @ x
    p = r.copy()
    square = r @ r
    for _ in range(steps):
        image = A @ p
        alpha = square / (p @ image)
        x = x + alpha * p
        r = r - alpha * image
        before, square = square, r @ r
        p = r + (square / before) * p
    return x


def lu(A):
    """(L and U in one matrix, permutation) of A by Gaussian elimination with partial pivoting."""
    A = A.copy()
    n = len(A)
    rows = np.arange(n)
    for k in range(n - 1):
        j = k + np.argmax(np.abs(A[k:, k]))
        A[[k, j]] = A[[j, k]]
        rows[[k, j]] = rows[[j, k]]
        A[k + 1 :, k] = A[k + 1 :, k] / A[k, k]
        A[k + 1 :, k + 1 :] = A[k + 1 :, k + 1 :] - np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A, rows


def solve(factors, b):
    """x of A x = b from the factors of A."""
    A, rows = factors
    x = b[rows].copy()
    n = len(x)
    for i in range(1, n):
        x[i] = x[i] - A[i, :i] @ x[:i]
    x[n - 1] = x[n - 1] / A[n - 1, n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = (x[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


def refine(A, b, low, work, high, steps):
    """The iterates of x; low, work and high convert to the precisions of factors, unknowns and residuals."""
    factors = lu(low(A))
    x = work(solve(factors, low(b)))
    iterates = [x]
    for _ in range(steps):
        r = high(b) - high(A) @ high(x)
        scale = np.max(np.abs(r))
        if scale == 0:
            break
        d = solve(factors, low(work(r / scale)))
        x = x + work(scale) * work(d)
        iterates.append(x)
    return iterates


def fft(re, im, cosine, sine):
    """Discrete Fourier transform of n = 2**k numbers; cosine and sine of 2 pi j / n for j below n / 2."""
    n = len(re)
    if n == 1:
        return re, im
    er, ei = fft(re[::2], im[::2], cosine[::2], sine[::2])
    odd_r, odd_i = fft(re[1::2], im[1::2], cosine[::2], sine[::2])
    tr = cosine * odd_r + sine * odd_i
    ti = cosine * odd_i - sine * odd_r
    return np.concatenate([er + tr, er - tr]), np.concatenate([ei + ti, ei - ti])


def lorenz(state, h, steps):
    """The trajectory from a state, `steps` steps of size h."""

    def slope(state):
        x, y, z = state
        return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    path = [state]
    for _ in range(steps):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    return np.stack(path)


def k_means(points, centres, steps):
    """(centres, labels) after a number of steps."""
    centres = centres.copy()
    for _ in range(steps):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels = np.argmin(distances, axis=1)
        for j in range(len(centres)):
            if np.any(labels == j):
                centres[j] = points[labels == j].mean(axis=0)
    return centres, labels


def kalman(x, P, F, H, Q, R, measurements):
    """The filtered states of a linear system with one measurement at a time."""
    path = []
    for z in measurements:
        x, P = F @ x, F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T / S
        x = x + K @ (z - H @ x)
        P = (np.eye(len(x)) - K @ H) @ P
        path.append(x)
    return np.stack(path)
