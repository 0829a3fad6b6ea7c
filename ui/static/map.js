// The whole of a picture in its corner, small, with a frame around the part that is on the screen.

const sizes = { width: 200, height: 140, least: 48, share: 0.4 };
const order = ["completed", "skipped", "blocked", "scheduled", "ready", "in-progress", "aborted"]; // what matters most is above

export class PictureMap {
	// picture says how large it is: all(); which part of that is on the screen: part(); where the
	// boxes are: boxes(), a list for each state; and show(x, y) brings a point into the middle.
	constructor(canvas, picture) {
		Object.assign(this, { canvas, picture, key: null, still: document.createElement("canvas") });
		const show = (event) => {
			const { width, height } = picture.all();
			picture.show(event.offsetX / canvas.clientWidth * width, event.offsetY / canvas.clientHeight * height);
		};
		canvas.addEventListener("pointerdown", (event) => {
			if (event.button !== 0) return;
			canvas.setPointerCapture(event.pointerId);
			show(event);
		});
		canvas.addEventListener("pointermove", (event) => {
			if (canvas.hasPointerCapture(event.pointerId)) show(event);
		});
	}

	// draw draws the frame, and the boxes as well if they are others than those of the key.
	draw(key) {
		const { canvas, picture } = this;
		const all = picture.all(), part = picture.part();
		canvas.hidden = part.width >= all.width && part.height >= all.height;
		if (canvas.hidden) return;
		const most = Math.min(sizes.width, canvas.parentElement.clientWidth * sizes.share);
		const scale = Math.min(most / all.width, sizes.height / all.height);
		const width = Math.max(all.width * scale, sizes.least), height = Math.max(all.height * scale, sizes.least);
		const x = width / all.width, y = height / all.height;
		if (key !== this.key || this.still.width !== Math.round(width * devicePixelRatio)) {
			this.key = key;
			this.drawBoxes(width, height, x, y);
		}
		// Above a flat picture it would hide much.
		canvas.classList.toggle("below", canvas.previousElementSibling.clientHeight < 2 * height);
		canvas.style.width = width + "px";
		canvas.style.height = height + "px";
		canvas.width = this.still.width;
		canvas.height = this.still.height;
		const pen = canvas.getContext("2d");
		pen.drawImage(this.still, 0, 0);
		pen.scale(devicePixelRatio, devicePixelRatio);
		pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--ink");
		pen.lineWidth = 1.5;
		const left = Math.max(part.x * x, 1), top = Math.max(part.y * y, 1);
		const right = Math.min((part.x + part.width) * x, width - 1), bottom = Math.min((part.y + part.height) * y, height - 1);
		pen.strokeRect(left, top, Math.max(right - left, 4), Math.max(bottom - top, 4));
	}

	drawBoxes(width, height, x, y) {
		const { still, picture } = this;
		still.width = Math.round(width * devicePixelRatio);
		still.height = Math.round(height * devicePixelRatio);
		const pen = still.getContext("2d");
		pen.scale(devicePixelRatio, devicePixelRatio);
		const style = getComputedStyle(this.canvas), boxes = picture.boxes();
		for (const state of order) {
			pen.fillStyle = style.getPropertyValue(`--${state}-fill`);
			for (const box of boxes[state] ?? []) {
				pen.fillRect(box.x * x, box.y * y, Math.max(box.width * x, 1.5), Math.max(box.height * y, 1.5));
			}
		}
	}
}
